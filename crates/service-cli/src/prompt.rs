//! Questions on the terminal. Lines are read by a thread of their own, so that whatever else happens can end the wait.

use std::{io::BufRead as _, thread};

use tokio::sync::mpsc;

use crate::{
    failure::{Code, Failure},
    output,
    terminal::Terminal,
};

/// The lines that are typed.
pub(crate) struct Lines(mpsc::UnboundedReceiver<String>);

impl Lines {
    pub(crate) fn read() -> Self {
        let (give, lines) = mpsc::unbounded_channel();
        thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if give.send(line).is_err() {
                    return;
                }
            }
        });
        Self(lines)
    }

    /// The next line; none if nobody will type any more.
    pub(crate) async fn next(&mut self) -> Option<String> {
        self.0.recv().await.map(|line| line.trim().to_owned())
    }

    /// Asks until something is typed.
    pub(crate) async fn ask(&mut self, question: &str) -> Result<String, Failure> {
        loop {
            output::ask(question);
            match self.next().await {
                Some(answer) if answer.is_empty() => {}
                Some(answer) => return Ok(answer),
                None => return Err(Failure::new(Code::NeedsTerminal, "The input ended before it was answered.")),
            }
        }
    }

    /// Asks for a yes or a no; an empty line means `default`.
    pub(crate) async fn agree(&mut self, question: &str, default: bool) -> Result<bool, Failure> {
        let choices = if default { "[Y/n]" } else { "[y/N]" };
        loop {
            output::ask(&format!("{question} {choices} "));
            let Some(answer) = self.next().await else {
                return Err(Failure::new(Code::NeedsTerminal, "The input ended before it was answered."));
            };
            match answer.to_ascii_lowercase().as_str() {
                "" => return Ok(default),
                "y" | "yes" => return Ok(true),
                "n" | "no" => return Ok(false),
                _ => {}
            }
        }
    }
}

/// Lets somebody confirm; without a terminal only `--yes` does.
pub(crate) async fn confirm(terminal: Terminal, yes: bool, what: &str, question: &str) -> Result<bool, Failure> {
    if yes {
        return Ok(true);
    }
    if !terminal.may_prompt() || terminal.silent {
        let text = format!("{what} needs --yes when nobody can be asked.");
        return Err(Failure::new(Code::ConfirmationRequired, text));
    }
    Lines::read().agree(question, false).await
}
