//! `service pack`: searches packs, and lists and restores deleted ones.

use serde_json::{Value, json};
use service_api::{contents::Kind, search::SearchPacks};

use super::deleted;
use crate::{
    arguments::PackCommand,
    connection::Connection,
    context::Context,
    failure::Failure,
    table::{Cell, Table},
};

pub(super) async fn run(context: &Context, command: PackCommand) -> Result<(), Failure> {
    match command {
        PackCommand::Search { query, pack_type } => search(context, query, pack_type).await,
        PackCommand::Deleted => deleted::list(context, Kind::Pack).await,
        PackCommand::Restore { ids } => deleted::restore(context, Kind::Pack, &ids).await,
    }
}

async fn search(context: &Context, query: String, pack_type: String) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let search = SearchPacks { pack_type, query, scopes: None, limit: None, cursor: None };
    let found = connection
        .call(context, async |client, token| client.search_packs(token, connection.workspace_id(), &search).await);
    let found = found.await?;
    let mut table = Table::new(&["ID", "TYPE", "NAME"]);
    for pack in &found.data {
        let pack_type = pack.content.fields.get("type").and_then(Value::as_str).unwrap_or_default();
        table.add_row([Cell::text(&pack.content.id), Cell::text(pack_type), Cell::text(pack.content.name())]);
    }
    if found.data.is_empty() {
        context.output.info("No packs found.");
    }
    let object = json!({
        "packs": found.data, "query": search.query, "type": search.pack_type, "nextCursor": found.next_cursor,
        "workspace": { "id": connection.workspace_id(), "source": connection.workspace.source.as_str() },
    });
    let lines = if found.data.is_empty() { String::new() } else { table.render(&context.output) };
    context.output.result(&object, &lines)
}
