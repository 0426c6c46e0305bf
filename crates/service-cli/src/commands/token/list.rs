//! `service token list`: lists the CLI tokens of a user, without their secrets.

use std::collections::HashMap;

use serde_json::{Value, json};
use service_api::{
    cli_tokens::{ListedCliToken, Status, StatusFilter},
    ids::{CliTokenId, WorkspaceId},
    token::CliToken,
};

use super::super::workspace;
use crate::{
    completion_cache::{ListedKind, remember},
    connection::Connection,
    context::Context,
    failure::{Failure, FailureCode},
    table::{Cell, Table},
};

/// The names of workspaces.
type WorkspaceNames = HashMap<WorkspaceId, String>;

pub(super) async fn run(context: &Context, status: &str) -> Result<(), Failure> {
    let filter =
        StatusFilter::parse(Some(status)).ok_or_else(|| Failure::new(FailureCode::Usage, "Unknown status."))?;
    let connection = Connection::open(context)?;
    let tokens = list_tokens(context, &connection, filter).await?;
    let names = read_workspace_names(context, &connection, &tokens).await;
    let active = tokens.iter().filter(|token| token.status == Status::Active);
    remember(context, &connection, ListedKind::Token, active.map(|token| (token.id.to_string(), token.name.as_str())));
    if tokens.is_empty() {
        context.output.info("No tokens. Create one with: service token create");
    }
    let current = current_token_id(context);
    let entries: Vec<_> = tokens.iter().map(|token| token_json(token, &names, current)).collect();
    let lines = if tokens.is_empty() {
        String::new()
    } else {
        tokens_table(&tokens, &names, current, filter).render(&context.output)
    };
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

/// The columns on a terminal. `STATUS` is left out where all tokens have the same one.
const SHOWN: &[&str] = &["", "NAME", "SCOPES", "EXPIRES", "WORKSPACE", "LAST USED", "CREATED", "ID"];
const SHOWN_WITH_STATUS: &[&str] =
    &["", "NAME", "STATUS", "SCOPES", "EXPIRES", "WORKSPACE", "LAST USED", "CREATED", "ID"];
/// The columns that a script gets: up to the mark and, of all tokens, the status.
const PIPED_COLUMNS: usize = 6;

fn tokens_table(
    tokens: &[ListedCliToken],
    names: &WorkspaceNames,
    current: Option<CliTokenId>,
    filter: StatusFilter,
) -> Table {
    let is_all = filter == StatusFilter::All;
    let table = Table::new(&["ID", "NAME", "WORKSPACE", "CREATED", "LAST USED", "", "STATUS", "SCOPES", "EXPIRES"]);
    let mut table =
        table.shown(if is_all { SHOWN_WITH_STATUS } else { SHOWN }).piped(PIPED_COLUMNS + usize::from(is_all));
    for token in tokens {
        table.add_row([
            Cell::whole(token.id.to_string()),
            Cell::text(&token.name),
            workspace_cell(token, names),
            Cell::time(Some(token.created_at)),
            Cell::time(token.last_used_at),
            Cell::mark(Some(token.id) == current, "← SERVICE_TOKEN"),
            Cell::whole(StatusFilter::Only(token.status).as_str()),
            Cell::text(token.scopes.to_string()),
            Cell::expiry(Some(token.expires_at)),
        ]);
    }
    table
}

/// The workspace of a token.
fn workspace_cell(token: &ListedCliToken, names: &WorkspaceNames) -> Cell {
    let Some(id) = token.workspace_id else { return Cell::pair("Personal", "personal") };
    Cell::pair(names.get(&id).cloned().unwrap_or_else(|| id.to_string()), id.to_string())
}
