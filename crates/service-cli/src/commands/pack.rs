//! `service pack`: lists, searches, creates, shows, changes, deletes and restores packs.

use std::process::ExitCode;

use serde_json::{Value, json};
use service_api::{JsonObject, contents::Kind, search::SearchPacks};

use super::{
    content::{self, Edit, text_or_file},
    deleted,
};
use crate::{
    arguments::PackCommand,
    completion_cache::{ListedKind, remember},
    connection::Connection,
    content_arguments::{PackContentCommand, TextOptions},
    context::Context,
    failure::Failure,
    table::{Cell, Table},
};

pub(super) async fn run(context: &Context, command: PackCommand) -> Result<ExitCode, Failure> {
    let done = match command {
        PackCommand::Content(command) => return run_content(context, command).await,
        PackCommand::Search { query, pack_type } => search(context, query, pack_type).await,
        PackCommand::Deleted => deleted::list(context, Kind::Pack).await,
        PackCommand::Restore { ids } => deleted::restore(context, Kind::Pack, &ids).await,
    };
    done.map(|()| ExitCode::SUCCESS)
}

async fn run_content(context: &Context, command: PackContentCommand) -> Result<ExitCode, Failure> {
    let done = match command {
        PackContentCommand::List(_) => list(context).await,
        PackContentCommand::Create(arguments) => {
            let fields = read_fields(Some(arguments.name), Some(arguments.pack_type), arguments.text)?;
            content::create(context, Kind::Pack, &fields).await
        }
        PackContentCommand::View(arguments) => content::view(context, Kind::Pack, &arguments.id).await,
        PackContentCommand::Edit(arguments) => {
            let changes = read_fields(arguments.name, arguments.pack_type, arguments.text)?;
            let version = arguments.precondition.if_match.as_deref();
            content::edit(context, Kind::Pack, Edit { id: &arguments.id, changes, version }).await
        }
        PackContentCommand::Delete(arguments) => return content::delete(context, Kind::Pack, &arguments.ids).await,
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// The fields of a pack that the arguments set.
fn read_fields(name: Option<String>, pack_type: Option<String>, text: TextOptions) -> Result<JsonObject, Failure> {
    let text = text_or_file(text.text, text.text_file.as_deref())?;
    let fields = [("name", name), ("type", pack_type), ("text", text)];
    Ok(fields.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?.into()))).collect())
}

async fn list(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let packs = connection.list_all(context, async |client, token, cursor| {
        client.list_contents(token, Kind::Pack, connection.workspace_id(), cursor).await
    });
    let packs = packs.await?;
    let mut table = Table::new(&["ID", "TYPE", "NAME"]);
    for pack in &packs {
        let pack_type = pack.fields.get("type").and_then(Value::as_str).unwrap_or_default();
        table.add_row([Cell::text(&pack.id), Cell::text(pack_type), Cell::text(pack.name())]);
    }
    if packs.is_empty() {
        context.output.info("No packs. Create one with: service pack create");
    }
    let object = json!({
        "packs": packs,
        "workspace": { "id": connection.workspace_id(), "source": connection.workspace.source.as_str() },
    });
    let lines = if packs.is_empty() { String::new() } else { table.render(&context.output) };
    context.output.result(&object, &lines)
}

async fn search(context: &Context, query: String, pack_type: String) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let search = SearchPacks { pack_type, query, scopes: None, limit: None, cursor: None };
    let found = connection
        .call(context, async |client, token| client.search_packs(token, connection.workspace_id(), &search).await);
    let found = found.await?;
    let entries = found.data.iter().map(|pack| (pack.content.id.clone(), pack.content.name()));
    remember(context, &connection, ListedKind::Pack, entries);
    let mut table = Table::new(&["ID", "TYPE", "NAME"]).shown(&["NAME", "TYPE", "ID"]);
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
