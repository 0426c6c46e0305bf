//! `service project`: lists, creates, shows, changes, deletes and restores projects.

use std::process::ExitCode;

use serde_json::json;
use service_api::{JsonObject, contents::Kind};

use super::{
    content::{self, Edit, text_or_file},
    deleted,
};
use crate::{
    arguments::ProjectCommand,
    completion_cache::{ListedKind, remember},
    connection::Connection,
    content_arguments::{DescriptionOptions, ProjectContentCommand},
    context::Context,
    failure::Failure,
    table::{Cell, Table},
};

pub(super) async fn run(context: &Context, command: ProjectCommand) -> Result<ExitCode, Failure> {
    let done = match command {
        ProjectCommand::List => list(context).await,
        ProjectCommand::Content(command) => return run_content(context, command).await,
        ProjectCommand::Deleted => deleted::list(context, Kind::Project).await,
        ProjectCommand::Restore { ids } => deleted::restore(context, Kind::Project, &ids).await,
    };
    done.map(|()| ExitCode::SUCCESS)
}

async fn run_content(context: &Context, command: ProjectContentCommand) -> Result<ExitCode, Failure> {
    let done = match command {
        ProjectContentCommand::Create(arguments) => {
            let fields = read_fields(Some(arguments.name), arguments.description)?;
            content::create(context, Kind::Project, &fields).await
        }
        ProjectContentCommand::View(arguments) => content::view(context, Kind::Project, &arguments.id).await,
        ProjectContentCommand::Edit(arguments) => {
            let changes = read_fields(arguments.name, arguments.description)?;
            let version = arguments.precondition.if_match.as_deref();
            content::edit(context, Kind::Project, Edit { id: &arguments.id, changes, version }).await
        }
        ProjectContentCommand::Delete(arguments) => {
            return content::delete(context, Kind::Project, &arguments.ids).await;
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// The fields of a project that the arguments set.
fn read_fields(name: Option<String>, description: DescriptionOptions) -> Result<JsonObject, Failure> {
    let description = text_or_file(description.description, description.description_file.as_deref())?;
    let fields = [("name", name), ("description", description)];
    Ok(fields.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?.into()))).collect())
}

async fn list(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let projects = connection.list_all(context, async |client, token, cursor| {
        client.list_contents(token, Kind::Project, connection.workspace_id(), cursor).await
    });
    let projects = projects.await?;
    let entries = projects.iter().map(|project| (project.id.clone(), project.name()));
    remember(context, &connection, ListedKind::Project, entries);
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
