//! `service token`: tokens for automation.

mod create;
mod list;
mod revoke;

use std::process::ExitCode;

use crate::{arguments::Token, context::Context, failure::Failure};

pub(super) async fn run(context: &Context, command: Token) -> Result<ExitCode, Failure> {
    match command {
        Token::Create(arguments) => create::run(context, arguments).await.map(|()| ExitCode::SUCCESS),
        Token::List { status } => list::run(context, &status).await.map(|()| ExitCode::SUCCESS),
        Token::Revoke { ids } => revoke::run(context, &ids).await,
    }
}
