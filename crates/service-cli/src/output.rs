//! The only module that prints. Results go to standard output; messages, prompts and errors go to standard error.

use std::io::{self, IsTerminal as _, Write};

use anstyle::{AnsiColor, Style};
use serde_json::Value;
use service_client::Exchange;

use crate::{
    failure::{Failure, FailureCode},
    jq::{self, FilterResult},
    json_text,
    terminal::Terminal,
    text::replace_control,
};

const SUCCESS_STYLE: Style = AnsiColor::Green.on_default();
const WARNING_STYLE: Style = AnsiColor::Yellow.on_default();
const ERROR_STYLE: Style = AnsiColor::Red.on_default();
const HINT_STYLE: Style = AnsiColor::Cyan.on_default();

/// How this command prints.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) jq: Option<String>,
    pub(crate) quiet: bool,
    pub(crate) terminal: Terminal,
}

impl Output {
    /// Prints the result of the command: `object` with `--json` or `--jq`, otherwise `lines`.
    pub(crate) fn result(&self, object: &Value, lines: &str) -> Result<(), Failure> {
        match &self.jq {
            Some(filter) => jq::run_filter(filter, object)?.iter().try_for_each(|result| match result {
                FilterResult::Text(text) => print_line(text),
                FilterResult::Json(json) => self.print_json(json),
            }),
            None if self.json => self.print_json(&object.to_string()),
            None if lines.is_empty() => Ok(()),
            None => print_line(lines),
        }
    }

    /// Prints JSON: indented and in color on a terminal, as one line elsewhere.
    fn print_json(&self, json: &str) -> Result<(), Failure> {
        if self.terminal.stdout { print_indented(json) } else { print_line(json) }
    }

    /// Prints that something was done.
    pub(crate) fn success(&self, text: &str) {
        self.print_message(SUCCESS_STYLE, "✓", "ok:", text);
    }

    pub(crate) fn warn(&self, text: &str) {
        self.print_message(WARNING_STYLE, "!", "warning:", text);
    }

    /// Prints additional information, without a symbol.
    pub(crate) fn info(&self, text: &str) {
        if !self.json && !self.quiet {
            print_to_stderr(&replace_control(text));
        }
    }

    /// Prints an error after which the command continues.
    pub(crate) fn error(&self, text: &str) {
        print_to_stderr(&self.prefix(ERROR_STYLE, "✗", "error:", text));
    }

    /// Prints the error that ends the command, and what the user can do next.
    pub(crate) fn failure(&self, failure: &Failure) {
        if self.json {
            print_json_failure(failure);
            return;
        }
        self.error(&failure.message);
        for hint in &failure.hints {
            print_to_stderr(&self.prefix(HINT_STYLE, "→", "next:", hint));
        }
    }

    fn print_message(&self, style: Style, symbol: &str, word: &str, text: &str) {
        if !self.json && !self.quiet {
            print_to_stderr(&self.prefix(style, symbol, word, text));
        }
    }

    fn prefix(&self, style: Style, symbol: &str, word: &str, text: &str) -> String {
        let symbol = if self.terminal.can_show_symbols() { symbol } else { word };
        format!("{style}{symbol}{style:#} {}", replace_control(text))
    }
}

/// Prints a prompt on standard error, and leaves the cursor after it.
pub(crate) fn print_prompt(text: &str) {
    let mut stderr = anstream::stderr().lock();
    drop(write!(stderr, "{text}").and_then(|()| stderr.flush()));
}

/// Clears the line of a prompt that no longer needs an answer.
pub(crate) fn clear_line() {
    print_prompt("\r\x1b[K");
}

/// Shows how far a command is, in the line of a terminal that was shown before.
pub(crate) fn report_progress(terminal: Terminal, text: &str) {
    if terminal.can_animate() {
        print_prompt(&format!("\r{}", replace_control(text)));
    }
}

/// Removes what [`report_progress`] showed.
pub(crate) fn end_progress(terminal: Terminal) {
    if terminal.can_animate() {
        clear_line();
    }
}

/// Logs one HTTP request for `--verbose`: never its headers, its query or a body.
pub(crate) fn log_exchange(exchange: &Exchange<'_>) {
    let status = exchange.status.map_or_else(|| "no response".to_owned(), |status| status.to_string());
    let request = exchange.request_id.unwrap_or("-");
    let took = exchange.took.as_millis();
    print_to_stderr(&format!("debug: {} {} {status} {request} {took} ms", exchange.method, exchange.path));
}

/// Prints a response body unchanged. On a terminal, JSON is indented and in color, and nothing controls the terminal.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = if stdout.is_terminal() {
        let text = String::from_utf8_lossy(bytes);
        if json_text::is_container(&text) {
            drop(stdout);
            return write_indented(&text);
        }
        stdout.write_all(replace_control(&text).as_bytes())
    } else {
        stdout.write_all(bytes)
    };
    check_written(written.and_then(|()| stdout.flush()))
}

/// Prints a part of the output; on a terminal, without control characters. Returns whether the reader wants more: one that
/// closed the pipe, as `head -1` does, does not.
pub(crate) fn print_chunk(bytes: &[u8]) -> Result<bool, Failure> {
    let mut stdout = io::stdout().lock();
    let written = if stdout.is_terminal() {
        stdout.write_all(replace_control(&String::from_utf8_lossy(bytes)).as_bytes())
    } else {
        stdout.write_all(bytes)
    };
    let written = written.and_then(|()| stdout.flush());
    let is_closed = written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
    check_written(written).map(|()| !is_closed)
}

/// Prints valid JSON on a terminal, indented and in color.
fn print_indented(json: &str) -> Result<(), Failure> {
    write_indented(json)?;
    print_line("")
}

fn write_indented(json: &str) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    let written = write!(stdout, "{}", json_text::indent(json));
    check_written(written.and_then(|()| stdout.flush()))
}

/// Prints a JSON-RPC message as one line on standard output. Line breaks in valid JSON are only between its tokens, so they are
/// replaced by spaces and nothing else changes.
pub(crate) fn print_message_line(json: &[u8]) -> io::Result<()> {
    let mut line: Vec<u8> = json.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect();
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(&line)?;
    stdout.flush()
}

/// Prints what the user has to read to continue, also with `--json` and `--quiet`.
pub(crate) fn print_instruction(text: &str) {
    print_to_stderr(&replace_control(text));
}

/// Prints a line on standard output.
pub(crate) fn print_line(line: &str) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    let is_terminal = io::stdout().is_terminal();
    let written = if is_terminal { writeln!(stdout, "{}", replace_control(line)) } else { writeln!(stdout, "{line}") };
    check_written(written.and_then(|()| stdout.flush()))
}

/// Prints text of the command itself, which can have styles, on standard output.
pub(crate) fn print_styled(text: &str) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    let written = writeln!(stdout, "{text}");
    check_written(written.and_then(|()| stdout.flush()))
}

/// Prints lines for a program on standard output.
pub(crate) fn print_raw_lines(lines: &[String]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    lines.iter().try_for_each(|line| writeln!(stdout, "{line}"))?;
    stdout.flush()
}

/// Prints an error as JSON on standard error.
pub(crate) fn print_json_failure(failure: &Failure) {
    print_to_stderr(&failure.to_json().to_string());
}

fn print_to_stderr(line: &str) {
    let mut stderr = anstream::stderr().lock();
    drop(writeln!(stderr, "{line}"));
}

/// Fails if the output could not be written. A reader that closed the pipe, as `head -1` does, is not a failure.
fn check_written(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(FailureCode::RequestFailed, format!("Can't write the output: {error}.")))
        }
        _ => Ok(()),
    }
}
