//! Creates, shows, changes and deletes projects and packs, which have the same form.

mod create;
mod delete;
mod edit;
mod view;

use serde_json::{Value, json};
use service_api::{contents::Kind, workspaces::PERSONAL};
use service_client::VersionedContent;

pub(super) use self::{
    create::create,
    delete::delete,
    edit::{Edit, edit},
    view::view,
};
use crate::{
    connection::Connection,
    failure::{Failure, FailureCode},
    input::read_text,
    table::strip_control,
};

/// The name of a kind in sentences and in commands.
fn noun(kind: Kind) -> String {
    kind.name().to_lowercase()
}

/// The content as the API shows it, with its version.
fn content_json(versioned: &VersionedContent) -> Value {
    let mut object = serde_json::to_value(&versioned.content).unwrap_or_default();
    if let Value::Object(members) = &mut object {
        members.insert("version".to_owned(), versioned.version.as_deref().into());
    }
    object
}

/// The workspace of a command in its JSON object.
fn workspace_json(connection: &Connection) -> Value {
    json!({ "id": connection.workspace_id(), "source": connection.workspace.source.as_str() })
}

/// The content was not found in the workspace of the command.
fn not_found(connection: &Connection, kind: Kind, id: &str) -> Failure {
    let place = match (connection.workspace_id(), &connection.workspace.name) {
        (Some(PERSONAL), _) => " in your personal space".to_owned(),
        (Some(id), Some(name)) => format!(" in {} ({id}), or you don't have access", strip_control(name)),
        (Some(id), None) => format!(" in {}, or you don't have access", strip_control(id)),
        (None, _) => String::new(),
    };
    let text = format!("{} {} not found{place}.", kind.name(), strip_control(id));
    Failure::new(FailureCode::NotFound, text).hint(format!("service {} list", noun(kind)))
}

/// Names the content in a failure that says that something was not found.
fn name_content(connection: &Connection, kind: Kind, id: &str) -> impl Fn(Failure) -> Failure {
    move |failure| if failure.code == FailureCode::NotFound { not_found(connection, kind, id) } else { failure }
}

/// A text from an argument or, if that is missing, from a file.
pub(super) fn text_or_file(text: Option<String>, file: Option<&str>) -> Result<Option<String>, Failure> {
    match (text, file) {
        (Some(text), _) => Ok(Some(text)),
        (None, Some(file)) => read_text(file).map(Some),
        (None, None) => Ok(None),
    }
}
