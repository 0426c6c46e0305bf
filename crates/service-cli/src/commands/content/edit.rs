//! `service project edit` and `service pack edit`.

use serde_json::json;
use service_api::{JsonObject, contents::Kind};
use service_client::ContentAddress;

use super::{content_json, name_content, noun, workspace_json};
use crate::{
    connection::Connection,
    context::Context,
    failure::{Failure, FailureCode},
    table::strip_control,
};

/// The fields of a content to change, and the version that they are meant for.
pub(in crate::commands) struct Edit<'a> {
    pub(in crate::commands) id: &'a str,
    pub(in crate::commands) changes: JsonObject,
    pub(in crate::commands) version: Option<&'a str>,
}

pub(in crate::commands) async fn edit(context: &Context, kind: Kind, edit: Edit<'_>) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let Edit { id, changes, version } = edit;
    let updated = connection.call(context, async |client, token| {
        let address = ContentAddress { kind, workspace: connection.workspace_id(), id };
        client.update_content(token, address, &changes, version).await
    });
    let updated = updated.await.map_err(name_content(&connection, kind, id)).map_err(|failure| {
        match (failure.status(), version) {
            (Some(412), Some(version)) => changed_meanwhile(kind, id, version, &failure),
            _ => failure,
        }
    })?;
    let (name, id) = (strip_control(updated.content.name()), strip_control(&updated.content.id));
    let noun = noun(kind);
    context.output.success(&format!("Updated {noun} {name} ({id})."));
    let object = json!({ noun: content_json(&updated), "workspace": workspace_json(&connection) });
    context.output.result(&object, "")
}

/// The content no longer has the version that the change was meant for.
fn changed_meanwhile(kind: Kind, id: &str, version: &str, failure: &Failure) -> Failure {
    let id = strip_control(id);
    let text = format!("{} {id} no longer has version {version}. Nothing was changed.", kind.name());
    Failure::new(FailureCode::Conflict, text)
        .hint(format!("See what changed, then repeat with its version: service {} view {id}", noun(kind)))
        .with_details_of(failure)
}
