//! `service mcp config`: prints what to add to the configuration of an MCP client. It never has a secret: the client signs in
//! by itself, or starts `service mcp serve`, which reads the stored MCP tokens.

use serde_json::json;
use service_api::endpoints;

use super::{
    login,
    snippet::{Connector, Snippet, StdioServer, Transport, build_snippet},
};
use crate::{
    context::{Context, store_failed},
    credentials::display_path,
    failure::{Failure, FailureCode},
    mcp_arguments::{McpClientArg, McpConfigArgs, McpLoginArgs},
    origin::Origin,
    prompt::InputLines,
};

pub(super) async fn run(context: &Context, arguments: &McpConfigArgs) -> Result<(), Failure> {
    let origin = context.origin()?;
    let url = format!("{origin}{}", endpoints::MCP.path());
    let transport = if arguments.stdio || arguments.client == McpClientArg::ClaudeDesktop {
        Transport::Stdio
    } else {
        Transport::Http
    };
    let connector = match transport {
        Transport::Http => Connector::Http { url: url.clone() },
        Transport::Stdio => Connector::Stdio(stdio_server(context, &origin)?),
    };
    let Snippet { format, file, text, next } = build_snippet(arguments.client, &arguments.name, &connector);
    match file {
        Some(file) => context.output.info(&format!("Add this to {file}:")),
        None => context.output.info("Run this command:"),
    }
    let object = json!({
        "client": client_name(arguments.client), "transport": transport.as_str(), "url": url, "name": arguments.name,
        "format": format.as_str(), "file": file, "snippet": text, "next": next,
    });
    context.output.result(&object, &text)?;
    context.output.info(&next);
    if transport == Transport::Stdio { offer_login(context, &origin).await } else { Ok(()) }
}

fn client_name(client: McpClientArg) -> String {
    clap::ValueEnum::to_possible_value(&client).map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// How a client starts this command: by its full path, because a client can have another `PATH`, and with the settings that
/// select the same server and the same credentials.
fn stdio_server(context: &Context, origin: &Origin) -> Result<StdioServer, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(FailureCode::RequestFailed, format!("Can't find the path of this command: {error}."))
    })?;
    let mut environment = vec![("SERVICE_API_URL", origin.as_str().to_owned())];
    if context.profile != "default" {
        environment.push(("SERVICE_PROFILE", context.profile.clone()));
    }
    if let Some(directory) = &context.environment.config_dir {
        environment.push(("SERVICE_CONFIG_DIR", display_path(directory)));
    }
    Ok(StdioServer { program: display_path(&program), environment })
}

/// Offers to create MCP tokens if there are none yet.
async fn offer_login(context: &Context, origin: &Origin) -> Result<(), Failure> {
    let saved = context.saved_mcp_tokens(origin)?;
    if saved.record().map_err(store_failed)?.is_some() {
        return Ok(());
    }
    let terminal = context.terminal();
    if !terminal.can_prompt() || terminal.silent {
        context.output.info("There are no MCP tokens on this computer yet. Create them with: service mcp login");
        return Ok(());
    }
    let question = "There are no MCP tokens on this computer yet. Create them now?";
    if InputLines::read().confirm(question, true).await? {
        return login::run(context, &McpLoginArgs::default()).await;
    }
    context.output.info("Create them later with: service mcp login");
    Ok(())
}
