//! `service workspace require-passkey`: requires a passkey from the members, or no longer does.

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
    context.output.info("Members whose account requires no passkey lose access until it does.");
    context.output.info("A first passkey can be required once it's 7 days old. Nothing is revoked or deleted.");
    let question = format!("Require a passkey from the members of {}?", space.in_sentence());
    if !prompt::confirm_action(context.terminal(), context.global.yes, "require a passkey", &question).await? {
        return Err(Failure::new(FailureCode::ConfirmationRequired, "Nothing was changed."));
    }
    let call = connection.call(context, async |client, token| client.require_workspace_passkey(token, id).await);
    let workspace = call.await?;
    context.output.success(&format!("{} now requires a passkey from its members.", space.in_sentence()));
    context.output.result(&json!({ "workspace": workspace }), "")
}

pub(super) async fn stop(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let (id, space) = current_workspace(context, &connection, "members").await?;
    connection.call(context, async |client, token| client.allow_workspace_codes(token, id).await).await?;
    context.output.success(&format!("{} no longer requires a passkey from its members.", space.in_sentence()));
    let workspace = json!({ "id": space.id, "name": space.name, "requiresPasskey": false });
    context.output.result(&json!({ "workspace": workspace }), "")
}
