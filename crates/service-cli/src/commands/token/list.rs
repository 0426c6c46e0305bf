//! `service token list`: lists the CLI tokens of a user, without their secrets.

use std::collections::HashMap;

use serde_json::{Value, json};
use service_api::{
    cli_tokens::{ListedCliToken, StatusFilter},
    ids::{CliTokenId, WorkspaceId},
    token::CliToken,
};

use super::super::workspace;
use crate::{
    connection::Connection,
    context::Context,
    failure::{Failure, FailureCode},
    table::{Cell, Table, strip_control},
};

/// The names of workspaces.
type WorkspaceNames = HashMap<WorkspaceId, String>;

pub(super) async fn run(context: &Context, status: &str) -> Result<(), Failure> {
    let filter =
        StatusFilter::parse(Some(status)).ok_or_else(|| Failure::new(FailureCode::Usage, "Unknown status."))?;
    let connection = Connection::open(context)?;
    let tokens = list_tokens(context, &connection, filter).await?;
    let names = read_workspace_names(context, &connection, &tokens).await;
    if tokens.is_empty() {
        context.output.info("No tokens. Create one with: service token create");
    }
    let current = current_token_id(context);
    let entries: Vec<_> = tokens.iter().map(|token| token_json(token, &names, current)).collect();
    let lines = if tokens.is_empty() { String::new() } else { render_table(context, &tokens, &names, current) };
    context.output.result(&json!({ "tokens": entries }), &lines)
}

/// Lists the tokens with a status.
pub(super) async fn list_tokens(
    context: &Context,
    connection: &Connection,
    filter: StatusFilter,
) -> Result<Vec<ListedCliToken>, Failure> {
    connection
        .list_all(context, async |client, token, cursor| client.list_cli_tokens(token, filter, cursor).await)
        .await
}

/// The ID of the token in `SERVICE_TOKEN`, if it is a CLI token.
pub(super) fn current_token_id(context: &Context) -> Option<CliTokenId> {
    CliToken::parse(context.environment.token.as_ref()?.text())?.id()
}

/// Reads the names of the tokens' workspaces. Those that cannot be read are left out, and shown by their IDs.
async fn read_workspace_names(context: &Context, connection: &Connection, tokens: &[ListedCliToken]) -> WorkspaceNames {
    if tokens.iter().all(|token| token.workspace_id.is_none()) {
        return WorkspaceNames::new();
    }
    let workspaces = workspace::list_workspaces(context, connection).await.unwrap_or_default();
    workspaces.into_iter().map(|workspace| (workspace.id, workspace.name)).collect()
}

fn token_json(token: &ListedCliToken, names: &WorkspaceNames, current: Option<CliTokenId>) -> Value {
    let mut entry = serde_json::to_value(token).unwrap_or_default();
    if let Value::Object(members) = &mut entry {
        members.remove("workspaceId");
        let workspace = token.workspace_id.map(|id| json!({ "id": id, "name": names.get(&id) }));
        members.insert("workspace".to_owned(), workspace.into());
        members.insert("current".to_owned(), (Some(token.id) == current).into());
        members.entry("lastUsedAt").or_insert(Value::Null);
    }
    entry
}

fn render_table(
    context: &Context,
    tokens: &[ListedCliToken],
    names: &WorkspaceNames,
    current: Option<CliTokenId>,
) -> String {
    let mut table = Table::new(&["ID", "NAME", "WORKSPACE", "CREATED", "LAST USED", ""]);
    for token in tokens {
        let mark = if Some(token.id) == current { "← SERVICE_TOKEN" } else { "" };
        table.add_row([
            Cell::text(token.id.to_string()),
            Cell::text(&token.name),
            workspace_cell(token, names),
            Cell::time(Some(token.created_at)),
            Cell::time(token.last_used_at),
            Cell::text(mark),
        ]);
    }
    table.render(&context.output)
}

/// The workspace of a token.
fn workspace_cell(token: &ListedCliToken, names: &WorkspaceNames) -> Cell {
    let Some(id) = token.workspace_id else { return Cell::pair("Personal", "personal") };
    let shown = names.get(&id).map_or_else(|| id.to_string(), |name| format!("{} ({id})", strip_control(name)));
    Cell::pair(shown, id.to_string())
}
