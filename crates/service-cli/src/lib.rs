//! `service`: the command line client of Service.
//!
//! `arguments` declares the command line, each command is a file under `commands`, and only `output` prints. A command builds
//! only what it needs: `service --version` starts no runtime, opens no socket and reads no certificates.

mod account_arguments;
mod api_arguments;
mod arguments;
mod audit_arguments;
mod clock;
mod commands;
mod completion_cache;
mod config_arguments;
mod connection;
mod content_arguments;
mod context;
mod credentials;
mod duration;
mod environment;
mod examples;
mod explain;
mod failure;
mod input;
mod jq;
mod json_text;
mod mcp_arguments;
mod open_arguments;
mod origin;
mod output;
mod passkey_arguments;
mod prompt;
mod settings;
mod spinner;
mod sso_arguments;
mod table;
mod terminal;
mod text;
mod token_arguments;
mod token_variable;
mod workspace_arguments;
mod workspace_selection;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _, error::ErrorKind};

use self::{
    arguments::{Arguments, ColorMode},
    commands::completion::{COMPLETE_COMMAND, complete},
    context::Context,
    failure::{Failure, FailureCode},
};

/// Returns the definition of the command line, from which manual pages are generated.
#[must_use]
pub fn command() -> clap::Command {
    examples::visit(Arguments::command(), "", &|command, path| {
        let examples = examples::find(&command, path);
        command.after_help(format!("Examples:\n{examples}"))
    })
}

/// Runs the command that the arguments of the process name, and returns its exit code.
#[must_use]
pub fn run() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|first| first == COMPLETE_COMMAND) {
        return complete(std::env::args_os().skip(2));
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        // Only help needs the examples of all commands, so only then are they put together.
        Err(error) if is_help(&error) => {
            let shown = commands::help::command().try_get_matches();
            return report_usage(&shown.err().unwrap_or(error));
        }
        Err(error) => return report_usage(&error),
    };
    match arguments.global.color {
        ColorMode::Auto => {}
        ColorMode::Always => anstream::ColorChoice::Always.write_global(),
        ColorMode::Never => anstream::ColorChoice::Never.write_global(),
    }
    let context = Context::gather(arguments.global);
    let filter = context.output.jq.as_deref().map_or(Ok(()), jq::check_filter);
    match filter.and_then(|()| commands::run(&context, arguments.command)) {
        Ok(code) => code,
        Err(failure) => {
            context.output.failure(&failure);
            ExitCode::from(failure.code.exit_code())
        }
    }
}

/// Whether an error is the help of a command.
fn is_help(error: &clap::Error) -> bool {
    matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand)
}

/// Prints help, the version, or why the arguments are invalid.
fn report_usage(error: &clap::Error) -> ExitCode {
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let is_json = std::env::args_os().any(|word| word == "--json" || word == "--jq");
    if is_help || !is_json {
        drop(error.print());
    } else {
        let text = error.render().to_string();
        let text = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        output::print_json_failure(&Failure::new(FailureCode::Usage, text));
    }
    if is_help { ExitCode::SUCCESS } else { ExitCode::from(FailureCode::Usage.exit_code()) }
}
