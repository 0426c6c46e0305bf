//! The only place that prints. Data goes to standard output; talk, questions and errors go to standard error.

use std::{
    borrow::Cow,
    io::{self, IsTerminal as _, Write},
};

use anstyle::{AnsiColor, Style};
use serde_json::Value;
use service_client::Exchange;

use crate::{
    failure::{Code, Failure},
    jq,
    terminal::Terminal,
};

const GOOD: Style = AnsiColor::Green.on_default();
const WARN: Style = AnsiColor::Yellow.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const NEXT: Style = AnsiColor::Cyan.on_default();

#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) jq: Option<String>,
    pub(crate) quiet: bool,
    pub(crate) terminal: Terminal,
}

impl Output {
    /// What was asked for: one object for programs, or these lines for people.
    pub(crate) fn result(&self, object: &Value, lines: &str) -> Result<(), Failure> {
        match &self.jq {
            Some(filter) => jq::run(filter, object)?.iter().try_for_each(|line| out(line)),
            None if self.json => out(&object.to_string()),
            None if lines.is_empty() => Ok(()),
            None => out(lines),
        }
    }

    /// Whether a program reads standard output.
    pub(crate) const fn is_for_programs(&self) -> bool {
        self.json
    }

    pub(crate) fn good(&self, text: &str) {
        self.talk(GOOD, "✓", "ok:", text);
    }

    pub(crate) fn warn(&self, text: &str) {
        self.talk(WARN, "!", "warning:", text);
    }

    /// Something worth knowing, without a sign.
    pub(crate) fn note(&self, text: &str) {
        if !self.json && !self.quiet {
            say(&safe(text));
        }
    }

    /// Something went wrong, and the command goes on.
    pub(crate) fn wrong(&self, text: &str) {
        say(&self.signed(BAD, "✗", "error:", text));
    }

    pub(crate) fn failure(&self, failure: &Failure) {
        if self.json {
            say(&failure.to_json().to_string());
            return;
        }
        self.wrong(&failure.message);
        for next in &failure.next {
            say(&self.signed(NEXT, "→", "next:", next));
        }
    }

    fn talk(&self, style: Style, sign: &str, word: &str, text: &str) {
        if !self.json && !self.quiet {
            say(&self.signed(style, sign, word, text));
        }
    }

    fn signed(&self, style: Style, sign: &str, word: &str, text: &str) -> String {
        let sign = if self.terminal.may_draw() { sign } else { word };
        format!("{style}{sign}{style:#} {}", safe(text))
    }
}

/// A question, with the cursor behind it.
pub(crate) fn ask(text: &str) {
    let mut stderr = anstream::stderr().lock();
    drop(write!(stderr, "{text}").and_then(|()| stderr.flush()));
}

/// Clears a line on which a question stands that nobody needs to answer any more.
pub(crate) fn clear_line() {
    ask("\r\x1b[K");
}

/// One request, for `--verbose`: never its headers, its query or a body.
pub(crate) fn trace(exchange: &Exchange<'_>) {
    let status = exchange.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
    let request = exchange.request_id.unwrap_or("-");
    let took = exchange.took.as_millis();
    say(&format!("debug: {} {} {status} {request} {took} ms", exchange.method, exchange.path));
}

/// Bytes as they are; on a terminal, without what it would obey.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = if stdout.is_terminal() {
        stdout.write_all(safe(&String::from_utf8_lossy(bytes)).as_bytes())
    } else {
        stdout.write_all(bytes)
    };
    finish(written.and_then(|()| stdout.flush()))
}

/// What the user has to see to go on, also when a program reads the result.
pub(crate) fn instruct(text: &str) {
    say(&safe(text));
}

/// A line on standard output.
pub(crate) fn out(line: &str) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    let is_shown = io::stdout().is_terminal();
    let written = if is_shown { writeln!(stdout, "{}", safe(line)) } else { writeln!(stdout, "{line}") };
    finish(written.and_then(|()| stdout.flush()))
}

fn say(line: &str) {
    let mut stderr = anstream::stderr().lock();
    drop(writeln!(stderr, "{line}"));
}

/// Without what a terminal would obey: much of what is shown was written by others.
fn safe(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
    if text.contains(obeyed) { Cow::Owned(text.replace(obeyed, "\u{fffd}")) } else { Cow::Borrowed(text) }
}

/// That nobody reads any more, as behind `| head -1`, is no failure. That it cannot be written is.
fn finish(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(Code::RequestFailed, format!("The output could not be written: {error}.")))
        }
        _ => Ok(()),
    }
}

/// A failure for programs, before anything else is known.
pub(crate) fn fail(failure: &Failure) {
    say(&failure.to_json().to_string());
}
