//! `service workspace list`.

use serde_json::json;
use service_api::workspaces::{PERSONAL, Role};

use super::all;
use crate::{
    connection::Connection,
    context::Context,
    failure::Failure,
    table::{Cell, Table},
};

pub(super) async fn run(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let workspaces = all(context, &connection).await?;
    let current = if let Some(id) = connection.workspace_id() {
        id.to_owned()
    } else {
        let asked = connection.call(context, async |client, token| client.whoami(token, None).await).await?;
        asked.space.workspace_id.map_or_else(|| PERSONAL.to_owned(), |id| id.to_string())
    };
    let current = Some(current.as_str());
    let mut table = Table::new(&["", "ID", "NAME", "ROLE"]);
    for workspace in &workspaces {
        let id = workspace.id.to_string();
        let mark = if current == Some(&id) { "*" } else { "" };
        table.row([Cell::same(mark), Cell::same(id), Cell::same(&workspace.name), Cell::same(role(workspace.role))]);
    }
    let mark = if current == Some(PERSONAL) { "*" } else { "" };
    table.row([Cell::same(mark), Cell::of("-", PERSONAL), Cell::same("Personal"), Cell::same("")]);
    let listed: Vec<_> = workspaces
        .iter()
        .map(|workspace| {
            let is_current = current == Some(workspace.id.to_string().as_str());
            json!({ "id": workspace.id, "name": workspace.name, "role": workspace.role, "current": is_current })
        })
        .collect();
    let source = connection.workspace.by.as_str();
    let object = json!({ "workspaces": listed, "current": { "id": current, "source": source } });
    context.output.result(&object, &table.render(&context.output))
}

const fn role(role: Role) -> &'static str {
    match role {
        Role::Owner => "owner",
        Role::Member => "member",
        Role::Viewer => "viewer",
    }
}
