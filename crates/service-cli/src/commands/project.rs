//! `service project list`.

use serde_json::{Map, Value, json};
use service_api::contents::{Content, Kind};

use crate::{
    arguments::Project,
    connection::Connection,
    context::Context,
    failure::Failure,
    table::{Cell, Table},
};

pub(super) async fn run(context: &Context, command: &Project) -> Result<(), Failure> {
    let Project::List = command;
    let connection = Connection::open(context)?;
    let mut projects: Vec<Content> = Vec::new();
    let mut cursor = None;
    loop {
        let page = connection.call(context, async |client, token| {
            client.list_contents(token, Kind::Project, connection.workspace_id(), cursor.as_deref()).await
        });
        let page = page.await?;
        projects.extend(page.data);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let object = json!({
        "projects": projects,
        "workspace": { "id": connection.workspace_id(), "source": connection.workspace.by.as_str() },
    });
    if projects.is_empty() {
        context.output.note("No projects here.");
    }
    let mut table = Table::new(&["ID", "NAME"]);
    for project in &projects {
        table.row([Cell::same(&project.id), Cell::same(name(&project.fields))]);
    }
    let lines = if projects.is_empty() { String::new() } else { table.render(&context.output) };
    context.output.result(&object, &lines)
}

/// What a content is called.
pub(super) fn name(fields: &Map<String, Value>) -> &str {
    fields.get("name").and_then(Value::as_str).unwrap_or_default()
}
