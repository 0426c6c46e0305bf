//! `service open`: opens a page of the service in the browser, or prints its URL.

use serde_json::json;
use service_api::endpoints;

use super::{
    login::{can_open_browser, opener},
    workspace::current_workspace,
};
use crate::{
    connection::Connection,
    context::Context,
    failure::Failure,
    open_arguments::{OpenArgs, PageArg},
    origin::Origin,
};

pub(super) async fn run(context: &Context, arguments: &OpenArgs) -> Result<(), Failure> {
    let url = find_url(context, arguments.page).await?;
    let wants_browser = !arguments.no_browser && !context.output.json;
    let opened = wants_browser && can_open_browser(context) && opener::open(&context.environment, &url);
    if opened {
        context.output.success(&format!("Opened {url} in your browser."));
        return Ok(());
    }
    if wants_browser {
        context.output.info("No browser available. Open this URL:");
    }
    context.output.result(&json!({ "url": url }), &url)
}

/// The URL of a page. Only pages of a workspace need a credential, to find out which workspace is current.
async fn find_url(context: &Context, page: PageArg) -> Result<String, Failure> {
    let path = match page {
        PageArg::Account => endpoints::ACCOUNT.path,
        PageArg::Security => endpoints::ACCOUNT_SECURITY.path,
        PageArg::Sessions => endpoints::ACCOUNT_SESSIONS.path,
        PageArg::Apps => endpoints::ACCOUNT_APPS.path,
        PageArg::Tokens => endpoints::ACCOUNT_TOKENS.path,
        PageArg::Workspaces => endpoints::WORKSPACES_PAGE.path,
        PageArg::Activity => endpoints::ACCOUNT_ACTIVITY.path,
        PageArg::Docs => endpoints::MANUAL.path,
        PageArg::Workspace => endpoints::WORKSPACE_PAGE.path,
        PageArg::WorkspaceCredentials => endpoints::WORKSPACE_CREDENTIALS.path,
        PageArg::WorkspaceActivity => endpoints::WORKSPACE_ACTIVITY.path,
        PageArg::WorkspaceConnections => endpoints::WORKSPACE_CONNECTIONS.path,
    };
    if !path.contains('{') {
        return Ok(join(&context.origin()?, path));
    }
    let connection = Connection::open(context)?;
    let (id, _) = current_workspace(context, &connection, "page of its own").await?;
    Ok(join(&connection.origin, &path.replace("{workspaceId}", &id.to_string())))
}

fn join(origin: &Origin, path: &str) -> String {
    format!("{}{path}", origin.as_str())
}
