//! `service project deleted` and `restore`, `service pack deleted` and `restore`: lists deleted content, and restores it.

use serde_json::json;
use service_api::contents::Kind;
use service_client::ContentAddress;

use crate::{
    completion_cache::{ListedKind, remember},
    connection::Connection,
    context::Context,
    failure::{Failure, FailureCode},
    table::{Cell, Table, strip_control},
};

pub(super) async fn list(context: &Context, kind: Kind) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let deleted = connection.list_all(context, async |client, token, cursor| {
        client.list_deleted_contents(token, kind, connection.workspace_id(), cursor).await
    });
    let mut deleted = deleted.await?;
    deleted.sort_by_key(|content| std::cmp::Reverse(content.deleted_at));
    let listed = if kind == Kind::Project { ListedKind::DeletedProject } else { ListedKind::DeletedPack };
    let entries = deleted.iter().map(|content| (content.content.id.clone(), content.content.name()));
    remember(context, &connection, listed, entries);
    if deleted.is_empty() {
        context.output.info(&format!("No deleted {}.", kind.resource().as_str()));
    }
    let mut table =
        Table::new(&["ID", "NAME", "DELETED", "BY", "EXPIRES"]).shown(&["NAME", "DELETED", "EXPIRES", "BY", "ID"]);
    for content in &deleted {
        table.add_row([
            Cell::text(&content.content.id),
            Cell::text(content.content.name()),
            Cell::time(Some(content.deleted_at)),
            Cell::whole(content.deleted_by.to_string()),
            Cell::expiry(Some(content.expires_at)),
        ]);
    }
    let object = json!({
        "deleted": deleted,
        "workspace": { "id": connection.workspace_id(), "source": connection.workspace.source.as_str() },
    });
    let lines = if deleted.is_empty() { String::new() } else { table.render(&context.output) };
    context.output.result(&object, &lines)
}

pub(super) async fn restore(context: &Context, kind: Kind, ids: &[String]) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let mut restored = Vec::new();
    for id in ids {
        let call = connection.call(context, async |client, token| {
            let content = ContentAddress { kind, workspace: connection.workspace_id(), id };
            client.restore_content(token, content).await
        });
        let content = call.await.map_err(|failure| {
            if failure.code == FailureCode::NotFound { deleted_not_found(kind, id) } else { failure }
        })?;
        context.output.success(&format!("Restored {} ({}).", strip_control(content.name()), content.id));
        restored.push(content);
    }
    let object = json!({
        "restored": restored,
        "workspace": { "id": connection.workspace_id(), "source": connection.workspace.source.as_str() },
    });
    context.output.result(&object, "")
}

fn deleted_not_found(kind: Kind, id: &str) -> Failure {
    let name = kind.name().to_lowercase();
    let text = format!("Deleted {name} {} not found, or deleted more than 30 days ago.", strip_control(id));
    Failure::new(FailureCode::NotFound, text).hint(format!("service {name} deleted"))
}
