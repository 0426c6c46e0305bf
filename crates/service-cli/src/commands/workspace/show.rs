//! `service workspace show`: which workspace commands work in, and why.

use serde_json::json;

use super::{Named, named};
use crate::{
    chosen::Chooser,
    connection::Connection,
    context::Context,
    failure::{Code, Failure},
};

pub(super) async fn run(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let asked = connection.call(context, async |client, token| client.whoami(token, connection.workspace_id()).await);
    let whoami = asked.await.map_err(|failure| match (failure.code, connection.workspace.by) {
        (Code::NotFound, Chooser::Saved) => {
            let id = connection.workspace.id.clone().unwrap_or_default();
            let lost = Named { id, name: connection.workspace.name.clone() };
            let text = format!("You no longer have access to the saved workspace {}.", lost.shown());
            Failure::new(Code::WorkspaceForbidden, text).next("service workspace use <id>")
        }
        _ => failure,
    })?;
    let space = match whoami.space.workspace_id {
        Some(id) => named(context, &connection, &id.to_string()).await?,
        None => Named::personal(),
    };
    let source = connection.workspace.by.as_str();
    let because = match connection.workspace.by {
        Chooser::Flag => "named by --workspace-id",
        Chooser::Environment => "named by SERVICE_WORKSPACE_ID",
        Chooser::Token => "set by SERVICE_TOKEN",
        Chooser::Saved => "chosen with: service workspace use",
        Chooser::Nobody => "the sign-in's own",
    };
    let object = json!({ "workspace": { "id": space.id, "name": space.name }, "source": source });
    context.output.result(&object, &format!("{}, {because}", space.shown()))
}
