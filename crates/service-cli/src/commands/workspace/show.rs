//! `service workspace show`: shows the current workspace, and where it is set.

use serde_json::json;

use super::{NamedSpace, read_named};
use crate::{
    connection::Connection,
    context::Context,
    failure::{Failure, FailureCode},
    workspace_selection::SelectionSource,
};

pub(super) async fn run(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let whoami = connection.call(context, async |client, token| client.whoami(token, connection.workspace_id()).await);
    let whoami = whoami.await.map_err(|failure| match (failure.code, connection.workspace.source) {
        (FailureCode::NotFound, SelectionSource::Saved) => {
            let id = connection.workspace.id.clone().unwrap_or_default();
            let lost = NamedSpace { id, name: connection.workspace.name.clone() };
            let text = format!("You no longer have access to the saved workspace {}.", lost.in_sentence());
            Failure::new(FailureCode::WorkspaceForbidden, text).hint("service workspace use <id>")
        }
        _ => failure,
    })?;
    let space = match whoami.space.workspace_id {
        Some(id) => read_named(context, &connection, &id.to_string()).await?,
        None => NamedSpace::personal(),
    };
    let source = connection.workspace.source;
    let object = json!({ "workspace": { "id": space.id, "name": space.name }, "source": source.as_str() });
    context.output.result(&object, &format!("{}{}", space.label(), source.suffix()))
}
