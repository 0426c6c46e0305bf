//! Which command was asked for. Each is a file that reads from top to bottom.

mod api;
mod completion;
mod doctor;
mod help;
mod login;
mod logout;
mod pack;
mod project;
mod session;
mod token;
mod whoami;
mod workspace;

use std::process::ExitCode;

use crate::{
    arguments::Command,
    context::Context,
    failure::{Code, Failure},
    output,
};

/// What the shell is told about a command that somebody stopped.
const STOPPED: u8 = 130;

pub(crate) fn run(context: &Context, command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Completion { shell } => return completion::run(shell),
        Command::Help { topic } => return help::run(&topic),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Code::RequestFailed, format!("Could not begin: {error}.")))?;
    let is_login = matches!(command, Command::Login(_));
    let result = runtime.block_on(async {
        tokio::select! {
            // First the command: what it reads from a pipe before it waits for anything is stopped by the system.
            biased;
            result = dispatch(context, command) => Some(result),
            _ = tokio::signal::ctrl_c() => None,
        }
    });
    // A thread may still wait for a line or for the keyring; nobody waits for it.
    runtime.shutdown_background();
    result.unwrap_or_else(|| {
        output::instruct(if is_login && !context.is_saved() { "\nStopped. Nothing was saved." } else { "\nStopped." });
        Ok(ExitCode::from(STOPPED))
    })
}

async fn dispatch(context: &Context, command: Command) -> Result<ExitCode, Failure> {
    let done = match command {
        Command::Whoami => return whoami::run(context).await,
        Command::Api(arguments) => return api::run(context, &arguments).await,
        Command::Token(command) => return token::run(context, command).await,
        Command::Doctor => return doctor::run(context).await,
        Command::Login(arguments) => login::run(context, &arguments).await,
        Command::Logout(arguments) => logout::run(context, &arguments).await,
        Command::Workspace(command) => workspace::run(context, command).await,
        Command::Project(command) => project::run(context, &command).await,
        Command::Pack(command) => pack::run(context, command).await,
        Command::Session(command) => session::run(context, command).await,
        Command::Completion { .. } | Command::Help { .. } => Ok(()),
    };
    done.map(|()| ExitCode::SUCCESS)
}
