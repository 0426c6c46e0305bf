//! `service workspace list`: lists the workspaces of a user, and marks the current one.

use serde_json::json;
use service_api::workspaces::PERSONAL;

use super::{list_workspaces, role_name};
use crate::{
    connection::Connection,
    context::Context,
    failure::Failure,
    table::{Cell, Table},
};

pub(super) async fn run(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let workspaces = list_workspaces(context, &connection).await?;
    let current = if let Some(id) = connection.workspace_id() {
        id.to_owned()
    } else {
        let whoami = connection.call(context, async |client, token| client.whoami(token, None).await).await?;
        whoami.space.workspace_id.map_or_else(|| PERSONAL.to_owned(), |id| id.to_string())
    };
    let current = Some(current.as_str());
    let mut table = Table::new(&["", "ID", "NAME", "ROLE"]);
    for workspace in &workspaces {
        let id = workspace.id.to_string();
        table.add_row([
            Cell::mark(current == Some(&id), "*"),
            Cell::whole(id),
            Cell::text(&workspace.name),
            Cell::text(role_name(workspace.role)),
        ]);
    }
    let mark = Cell::mark(current == Some(PERSONAL), "*");
    table.add_row([mark, Cell::text(PERSONAL), Cell::text("Personal"), Cell::text("")]);
    let listed: Vec<_> = workspaces
        .iter()
        .map(|workspace| {
            let is_current = current == Some(workspace.id.to_string().as_str());
            json!({ "id": workspace.id, "name": workspace.name, "role": workspace.role, "current": is_current })
        })
        .collect();
    let source = connection.workspace.source.as_str();
    let object = json!({ "workspaces": listed, "current": { "id": current, "source": source } });
    context.output.result(&object, &table.render(&context.output))
}
