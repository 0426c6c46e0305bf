//! `service workspace require-passkey`: keeps out members whose account requires no passkey, or lets them in again.

use serde_json::json;

use super::members::current_workspace;
use crate::{
    connection::Connection,
    context::Context,
    failure::{Failure, FailureCode},
    prompt,
};

pub(super) async fn require(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let (id, space) = current_workspace(context, &connection, "members").await?;
    context
        .output
        .info("Members whose account requires no passkey are then kept out, with all their sessions and tokens.");
    context.output.info("They get in again when they require one. Nothing is revoked or deleted.");
    let question = format!("Require a passkey of the members of {}?", space.in_sentence());
    if !prompt::confirm_action(context.terminal(), context.global.yes, "require a passkey", &question).await? {
        return Err(Failure::new(FailureCode::ConfirmationRequired, "Nothing was changed."));
    }
    let call = connection.call(context, async |client, token| client.require_workspace_passkey(token, id).await);
    let workspace = call.await?;
    context.output.success(&format!("{} now lets members in only with a passkey.", space.in_sentence()));
    context.output.result(&json!({ "workspace": workspace }), "")
}

pub(super) async fn stop(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let (id, space) = current_workspace(context, &connection, "members").await?;
    connection.call(context, async |client, token| client.allow_workspace_codes(token, id).await).await?;
    context.output.success(&format!("{} lets all members in again.", space.in_sentence()));
    let workspace = json!({ "id": space.id, "name": space.name, "requiresPasskey": false });
    context.output.result(&json!({ "workspace": workspace }), "")
}
