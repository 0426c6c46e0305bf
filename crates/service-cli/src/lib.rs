//! `service`: the service from the command line.
//!
//! What is typed is in `arguments`, each command is a file under `commands`, and only `output` prints. Nothing that a
//! command does not need is built: no runtime, no HTTP, no certificates for `service --version`.

mod arguments;
mod chosen;
mod clock;
mod commands;
mod connection;
mod context;
mod credentials;
mod environment;
mod explain;
mod failure;
mod jq;
mod origin;
mod output;
mod prompt;
mod spinner;
mod table;
mod terminal;
mod token_variable;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _, error::ErrorKind};

use self::{
    arguments::{Arguments, Colour},
    context::Context,
    failure::{Code, Failure},
};

/// The command, for its manual pages.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Does what the arguments of the process say.
#[must_use]
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    match arguments.everywhere.color {
        Colour::Auto => {}
        Colour::Always => anstream::ColorChoice::Always.write_global(),
        Colour::Never => anstream::ColorChoice::Never.write_global(),
    }
    let context = Context::gather(arguments.everywhere);
    let filter = context.output.jq.as_deref().map_or(Ok(()), jq::check);
    match filter.and_then(|()| commands::run(&context, arguments.command)) {
        Ok(code) => code,
        Err(failure) => {
            context.output.failure(&failure);
            ExitCode::from(failure.code.exit())
        }
    }
}

/// What was typed cannot be understood, or asks for help.
fn usage(error: &clap::Error) -> ExitCode {
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let for_programs = std::env::args_os().any(|word| word == "--json" || word == "--jq");
    if asked || !for_programs {
        drop(error.print());
    } else {
        let text = error.render().to_string();
        let text = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        output::fail(&Failure::new(Code::Usage, text));
    }
    if asked { ExitCode::SUCCESS } else { ExitCode::from(Code::Usage.exit()) }
}
