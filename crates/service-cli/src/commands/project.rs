//! `service project`: lists projects, and lists and restores deleted ones.

use serde_json::json;
use service_api::contents::Kind;

use super::deleted;
use crate::{
    arguments::ProjectCommand,
    connection::Connection,
    context::Context,
    failure::Failure,
    table::{Cell, Table},
};

pub(super) async fn run(context: &Context, command: ProjectCommand) -> Result<(), Failure> {
    match command {
        ProjectCommand::List => list(context).await,
        ProjectCommand::Deleted => deleted::list(context, Kind::Project).await,
        ProjectCommand::Restore { ids } => deleted::restore(context, Kind::Project, &ids).await,
    }
}

async fn list(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let projects = connection.list_all(context, async |client, token, cursor| {
        client.list_contents(token, Kind::Project, connection.workspace_id(), cursor).await
    });
    let projects = projects.await?;
    let object = json!({
        "projects": projects,
        "workspace": { "id": connection.workspace_id(), "source": connection.workspace.source.as_str() },
    });
    if projects.is_empty() {
        context.output.info("No projects.");
    }
    let mut table = Table::new(&["ID", "NAME"]);
    for project in &projects {
        table.add_row([Cell::text(&project.id), Cell::text(project.name())]);
    }
    let lines = if projects.is_empty() { String::new() } else { table.render(&context.output) };
    context.output.result(&object, &lines)
}
