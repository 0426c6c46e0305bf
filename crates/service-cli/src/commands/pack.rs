//! `service pack search`.

use serde_json::{Value, json};
use service_api::search::SearchPacks;

use super::project::name;
use crate::{
    arguments::Pack,
    connection::Connection,
    context::Context,
    failure::Failure,
    table::{Cell, Table},
};

pub(super) async fn run(context: &Context, command: Pack) -> Result<(), Failure> {
    let Pack::Search { query, pack_type } = command;
    let connection = Connection::open(context)?;
    let search = SearchPacks { pack_type, query, scopes: None, limit: None, cursor: None };
    let found = connection
        .call(context, async |client, token| client.search_packs(token, connection.workspace_id(), &search).await);
    let found = found.await?;
    let mut table = Table::new(&["ID", "TYPE", "NAME"]);
    for pack in &found.data {
        let pack_type = pack.content.fields.get("type").and_then(Value::as_str).unwrap_or_default();
        table.row([Cell::same(&pack.content.id), Cell::same(pack_type), Cell::same(name(&pack.content.fields))]);
    }
    if found.data.is_empty() {
        context.output.note("Nothing was found.");
    }
    let object = json!({
        "packs": found.data, "query": search.query, "type": search.pack_type, "nextCursor": found.next_cursor,
        "workspace": { "id": connection.workspace_id(), "source": connection.workspace.by.as_str() },
    });
    let lines = if found.data.is_empty() { String::new() } else { table.render(&context.output) };
    context.output.result(&object, &lines)
}
