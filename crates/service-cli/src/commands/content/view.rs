//! `service project view` and `service pack view`.

use serde_json::{Value, json};
use service_api::{
    contents::{Form, Kind},
    instant,
    workspaces::ContentScope,
};
use service_client::{ContentAddress, VersionedContent};

use super::{content_json, name_content, noun, workspace_json};
use crate::{connection::Connection, context::Context, failure::Failure, table::strip_control};

pub(in crate::commands) async fn view(context: &Context, kind: Kind, id: &str) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let versioned = read(context, &connection, kind, id).await?;
    let object = json!({ noun(kind): content_json(&versioned), "workspace": workspace_json(&connection) });
    context.output.result(&object, &format_content(kind, &versioned))
}

/// Reads a content of the workspace of the command.
pub(super) async fn read(
    context: &Context,
    connection: &Connection,
    kind: Kind,
    id: &str,
) -> Result<VersionedContent, Failure> {
    let read = connection.call(context, async |client, token| {
        client.read_content(token, ContentAddress { kind, workspace: connection.workspace_id(), id }).await
    });
    read.await.map_err(name_content(connection, kind, id))
}

/// The name, a line for each property, and the text after an empty line.
fn format_content(kind: Kind, versioned: &VersionedContent) -> String {
    let content = &versioned.content;
    let workspace = match (content.scope, content.workspace_id) {
        (ContentScope::Workspace, Some(id)) => id.to_string(),
        _ => "Personal".to_owned(),
    };
    let mut lines = vec![strip_control(content.name()), format!("ID          {}", strip_control(&content.id))];
    let field = |name: &str| content.fields.get(name).and_then(Value::as_str).unwrap_or_default();
    lines.extend(kind.fields().iter().filter(|field| field.form == Form::PackType).map(|field_of_kind| {
        let value = strip_control(field(field_of_kind.name));
        format!("Type        {value}")
    }));
    lines.extend([
        format!("Workspace   {workspace}"),
        format!("Created     {}", instant::to_text(content.created_at)),
        format!("Updated     {}", instant::to_text(content.updated_at)),
    ]);
    lines.extend(versioned.version.as_ref().map(|version| format!("Version     {}", strip_control(version))));
    let texts = kind.fields().iter().filter(|field| field.form == Form::Text).map(|text| field(text.name));
    lines.extend(texts.filter(|text| !text.is_empty()).map(|text| format!("\n{}", text.trim_end())));
    lines.join("\n")
}
