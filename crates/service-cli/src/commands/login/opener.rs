//! Opens a URL in the user's browser.

use std::process::{Command, Stdio};

use crate::environment::Environment;

/// Opens a URL with the browser that the user named, or else with the system's. Returns whether a program started.
pub(in crate::commands) fn open(environment: &Environment, url: &str) -> bool {
    let commands = match &environment.browser {
        Some(browser) => vec![browser_command(browser, url)],
        None => open::commands(url),
    };
    commands.into_iter().any(start_detached)
}

/// Builds the command of a browser. `%s` stands for the URL; without it, the URL is the last argument.
fn browser_command(browser: &str, url: &str) -> Command {
    let mut words = browser.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words.clone().map(|word| word.replace("%s", url)));
    if !words.any(|word| word.contains("%s")) {
        command.arg(url);
    }
    command
}

/// Starts a program that has neither the user's token nor the terminal.
fn start_detached(mut command: Command) -> bool {
    let detached = command.env_remove("SERVICE_TOKEN").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    detached.spawn().is_ok()
}
