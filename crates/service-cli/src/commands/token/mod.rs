//! `service token`: creates, lists, rotates and revokes CLI tokens.

mod create;
mod list;
mod revoke;
mod rotate;

use std::process::ExitCode;

use crate::{arguments::TokenCommand, context::Context, failure::Failure};

pub(super) async fn run(context: &Context, command: TokenCommand) -> Result<ExitCode, Failure> {
    match command {
        TokenCommand::Create(arguments) => create::run(context, arguments).await.map(|()| ExitCode::SUCCESS),
        TokenCommand::List { status } => list::run(context, &status).await.map(|()| ExitCode::SUCCESS),
        TokenCommand::Rotate(arguments) => rotate::run(context, &arguments).await.map(|()| ExitCode::SUCCESS),
        TokenCommand::Revoke { ids } => revoke::run(context, &ids).await,
    }
}
