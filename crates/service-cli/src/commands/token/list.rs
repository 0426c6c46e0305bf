//! `service token list`.

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
    failure::{Code, Failure},
    table::{Cell, Table, clean},
};

type Names = HashMap<WorkspaceId, String>;

pub(super) async fn run(context: &Context, status: &str) -> Result<(), Failure> {
    let filter =
        StatusFilter::parse(Some(status)).ok_or_else(|| Failure::new(Code::Usage, "There is no such status."))?;
    let connection = Connection::open(context)?;
    let tokens = all(context, &connection, filter).await?;
    let names = names(context, &connection, &tokens).await;
    if tokens.is_empty() {
        context.output.note("No tokens yet. Make one: service token create");
    }
    let current = current(context);
    let entries: Vec<_> = tokens.iter().map(|token| entry(token, &names, current)).collect();
    let lines = if tokens.is_empty() { String::new() } else { table(context, &tokens, &names, current) };
    context.output.result(&json!({ "tokens": entries }), &lines)
}

/// Every page of them.
pub(super) async fn all(
    context: &Context,
    connection: &Connection,
    filter: StatusFilter,
) -> Result<Vec<ListedCliToken>, Failure> {
    let mut tokens = Vec::new();
    let mut cursor = None;
    loop {
        let page = connection
            .call(context, async |client, token| client.list_cli_tokens(token, filter, cursor.as_deref()).await);
        let page = page.await?;
        tokens.extend(page.data);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(tokens);
        }
    }
}

/// The token that `SERVICE_TOKEN` holds.
pub(super) fn current(context: &Context) -> Option<CliTokenId> {
    CliToken::parse(context.environment.token.as_ref()?.text())?.id()
}

/// What the workspaces are called; ids do where that cannot be seen.
async fn names(context: &Context, connection: &Connection, tokens: &[ListedCliToken]) -> Names {
    if tokens.iter().all(|token| token.workspace_id.is_none()) {
        return Names::new();
    }
    let all = workspace::all(context, connection).await.unwrap_or_default();
    all.into_iter().map(|workspace| (workspace.id, workspace.name)).collect()
}

fn entry(token: &ListedCliToken, names: &Names, current: Option<CliTokenId>) -> Value {
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

fn table(context: &Context, tokens: &[ListedCliToken], names: &Names, current: Option<CliTokenId>) -> String {
    let mut table = Table::new(&["ID", "NAME", "WORKSPACE", "CREATED", "LAST USED", ""]);
    for token in tokens {
        let mark = if Some(token.id) == current { "← SERVICE_TOKEN" } else { "" };
        table.row([
            Cell::same(token.id.to_string()),
            Cell::same(&token.name),
            place(token, names),
            Cell::moment(Some(token.created_at)),
            Cell::moment(token.last_used_at),
            Cell::same(mark),
        ]);
    }
    table.render(&context.output)
}

/// Where a token works.
fn place(token: &ListedCliToken, names: &Names) -> Cell {
    let Some(id) = token.workspace_id else { return Cell::of("Personal", "personal") };
    let shown = names.get(&id).map_or_else(|| id.to_string(), |name| format!("{} ({id})", clean(name)));
    Cell::of(shown, id.to_string())
}
