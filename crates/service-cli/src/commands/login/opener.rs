//! Opens an address in the user's browser.

use std::process::{Command, Stdio};

use crate::environment::Environment;

/// Whether something was started. The first of these: what the user named, the system's own way.
pub(super) fn open(environment: &Environment, url: &str) -> bool {
    let commands = match &environment.browser {
        Some(named) => vec![named_browser(named, url)],
        None => open::commands(url),
    };
    commands.into_iter().any(start)
}

/// `%s` stands for the address; without it, the address comes last.
fn named_browser(named: &str, url: &str) -> Command {
    let mut words = named.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words.clone().map(|word| word.replace("%s", url)));
    if !words.any(|word| word.contains("%s")) {
        command.arg(url);
    }
    command
}

/// With nothing of ours: neither the token nor the terminal.
fn start(mut command: Command) -> bool {
    let quiet = command.env_remove("SERVICE_TOKEN").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.spawn().is_ok()
}
