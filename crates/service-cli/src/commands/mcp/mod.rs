//! `service mcp`: connects MCP clients to the service, by HTTP or through this command.

mod config;
mod login;
pub(super) mod logout;
mod serve;
mod snippet;
mod status;

use crate::{context::Context, failure::Failure, mcp_arguments::McpCommand};

pub(super) async fn run(context: &Context, command: McpCommand) -> Result<(), Failure> {
    match command {
        McpCommand::Config(arguments) => config::run(context, &arguments).await,
        McpCommand::Login(arguments) => login::run(context, &arguments).await,
        McpCommand::Logout => logout::run(context).await,
        McpCommand::Status => status::run(context),
        McpCommand::Serve => serve::run(context).await,
    }
}
