//! Dispatches to the commands. Each command is a file.

mod account;
mod account_export;
mod api;
mod app;
mod audit;
pub(crate) mod completion;
mod config;
mod content;
mod deleted;
mod doctor;
pub(crate) mod help;
mod invitation;
pub(crate) mod login;
mod logout;
mod mcp;
mod open;
mod pack;
mod passkey;
mod project;
mod session;
mod token;
mod whoami;
mod workspace;

use std::process::ExitCode;

use crate::{
    arguments::Command,
    context::Context,
    failure::{Failure, FailureCode},
    output,
};

/// The exit code of a command that the user stopped with Ctrl-C.
const CTRL_C_EXIT_CODE: u8 = 130;

pub(crate) fn run(context: &Context, command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Completion { shell } => return completion::run(shell),
        Command::Help { topic } => return help::run(&topic),
        // It can correct the settings.
        Command::Config(_) => {}
        _ => context.check_settings()?,
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(FailureCode::RequestFailed, format!("Can't start: {error}.")))?;
    let is_login = matches!(command, Command::Login(_));
    let result = runtime.block_on(async {
        tokio::select! {
            // The command first: while it reads a pipe and does not wait, the system's own Ctrl-C handling stops it.
            biased;
            result = dispatch(context, command) => Some(result),
            _ = tokio::signal::ctrl_c() => None,
        }
    });
    // A thread can still be waiting for a line or for the keyring; it is abandoned.
    runtime.shutdown_background();
    result.unwrap_or_else(|| {
        output::print_instruction(if is_login && !context.is_saved() {
            "\nStopped. Nothing was saved."
        } else {
            "\nStopped."
        });
        Ok(ExitCode::from(CTRL_C_EXIT_CODE))
    })
}

async fn dispatch(context: &Context, command: Command) -> Result<ExitCode, Failure> {
    let done = match command {
        Command::Whoami => return whoami::run(context).await,
        Command::Api(arguments) => return api::run(context, &arguments).await,
        Command::Token(command) => return token::run(context, command).await,
        Command::Project(command) => return project::run(context, command).await,
        Command::Pack(command) => return pack::run(context, command).await,
        Command::Doctor(arguments) => return doctor::run(context, &arguments).await,
        Command::Login(arguments) => login::run(context, &arguments).await,
        Command::Logout(arguments) => logout::run(context, &arguments).await,
        Command::Workspace(command) => workspace::run(context, command).await,
        Command::Invitation(command) => invitation::run(context, command).await,
        Command::Mcp(command) => mcp::run(context, command).await,
        Command::Session(command) => session::run(context, command).await,
        Command::Account(command) => account::run(context, command).await,
        Command::Passkey(command) => passkey::run(context, command).await,
        Command::Audit(arguments) => audit::run(context, &arguments).await,
        Command::Open(arguments) => open::run(context, &arguments).await,
        Command::Config(command) => config::run(context, command).await,
        Command::App(command) => app::run(context, command).await,
        Command::Completion { .. } | Command::Help { .. } => Ok(()),
    };
    done.map(|()| ExitCode::SUCCESS)
}
