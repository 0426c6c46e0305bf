//! Prompts on the terminal. A thread reads the lines, so that a command can stop waiting for one.

use std::{
    io::BufRead as _,
    sync::{Arc, OnceLock},
    thread,
};

use tokio::sync::{Mutex, mpsc};

use crate::{
    failure::{Failure, FailureCode},
    output,
    terminal::Terminal,
};

type LineReceiver = Arc<Mutex<mpsc::UnboundedReceiver<String>>>;

/// The lines that the user types. One thread reads them for the whole process, so that no prompt loses its answer to the
/// reader of an earlier one.
pub(crate) struct InputLines(LineReceiver);

impl InputLines {
    /// Starts reading standard input, if no earlier call did.
    pub(crate) fn read() -> Self {
        static RECEIVER: OnceLock<LineReceiver> = OnceLock::new();
        let receiver = RECEIVER.get_or_init(|| {
            let (sender, lines) = mpsc::unbounded_channel();
            thread::spawn(move || {
                for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
            Arc::new(Mutex::new(lines))
        });
        Self(receiver.clone())
    }

    /// Returns the next line, or none at the end of the input.
    pub(crate) async fn next(&mut self) -> Option<String> {
        self.0.lock().await.recv().await.map(|line| line.trim().to_owned())
    }

    /// Prompts until the user types something.
    pub(crate) async fn ask(&mut self, question: &str) -> Result<String, Failure> {
        loop {
            output::print_prompt(question);
            match self.next().await {
                Some(answer) if answer.is_empty() => {}
                Some(answer) => return Ok(answer),
                None => return Err(input_ended()),
            }
        }
    }

    /// Prompts for yes or no; an empty line means `default`.
    pub(crate) async fn confirm(&mut self, question: &str, default: bool) -> Result<bool, Failure> {
        let choices = if default { "[Y/n]" } else { "[y/N]" };
        loop {
            output::print_prompt(&format!("{question} {choices} "));
            let Some(answer) = self.next().await else { return Err(input_ended()) };
            match answer.to_ascii_lowercase().as_str() {
                "" => return Ok(default),
                "y" | "yes" => return Ok(true),
                "n" | "no" => return Ok(false),
                _ => {}
            }
        }
    }
}

fn input_ended() -> Failure {
    Failure::new(FailureCode::NeedsTerminal, "The input ended before you answered.")
}

/// Asks the user to confirm an action, such as `revoke`. Without a terminal, only `--yes` confirms it.
pub(crate) async fn confirm_action(
    terminal: Terminal,
    yes: bool,
    action: &str,
    question: &str,
) -> Result<bool, Failure> {
    if yes {
        return Ok(true);
    }
    if !terminal.can_prompt() || terminal.silent {
        let text = format!("Use --yes to {action} without a prompt.");
        return Err(Failure::new(FailureCode::ConfirmationRequired, text));
    }
    InputLines::read().confirm(question, false).await
}
