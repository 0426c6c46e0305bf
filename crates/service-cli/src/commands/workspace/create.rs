//! `service workspace create`.

use serde_json::json;

use super::NamedSpace;
use crate::{connection::Connection, context::Context, failure::Failure};

pub(super) async fn run(context: &Context, name: &str) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let created = connection.call(context, async |client, token| client.create_workspace(token, name).await).await?;
    let object = json!({ "workspace": { "id": created.id, "name": created.name, "role": created.role } });
    let space = NamedSpace::from(created);
    context.output.success(&format!("Created {}.", space.in_sentence()));
    context.output.info(&format!("  To use it: service workspace use {}", space.id));
    context.output.info(&format!("  To invite members: service workspace invite <email> --workspace-id {}", space.id));
    let is_shown = context.terminal().stdout && !context.output.quiet;
    context.output.result(&object, if is_shown { "" } else { &space.id })
}
