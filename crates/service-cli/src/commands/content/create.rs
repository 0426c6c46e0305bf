//! `service project create` and `service pack create`.

use serde_json::json;
use service_api::{JsonObject, contents::Kind};
use service_client::NewContent;

use super::{content_json, noun, workspace_json};
use crate::{
    commands::login::pkce::random_text, connection::Connection, context::Context, failure::Failure,
    table::strip_control,
};

/// Creates a content. The request has a key, so that it can be sent again after a lost response without creating a second one.
pub(in crate::commands) async fn create(context: &Context, kind: Kind, fields: &JsonObject) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let key = random_text()?;
    let created = connection.call(context, async |client, token| {
        let workspace = connection.workspace_id();
        client.create_content(token, NewContent { kind, workspace, fields, idempotency_key: Some(&key) }).await
    });
    let created = created.await?;
    let (name, id) = (strip_control(created.content.name()), strip_control(&created.content.id));
    let noun = noun(kind);
    context.output.success(&format!("Created {noun} {name} ({id})."));
    let object = json!({ &noun: content_json(&created), "workspace": workspace_json(&connection) });
    // A script gets the ID without a filter. On a terminal, the message above has it.
    let is_shown = context.terminal().stdout && !context.output.quiet;
    let line = if is_shown { "" } else { id.as_str() };
    context.output.result(&object, line)
}
