//! Table `workspaces`.

use service_api::ids::{Id as _, WorkspaceId};
use service_rules::Timestamp;

use crate::database::{Connection, Error};

/// Deletes a workspace; `false`: there is none such.
pub async fn mark_deleted(db: &Connection, id: WorkspaceId, now: Timestamp) -> Result<bool, Error> {
    let changed = db
        .execute(r"update workspaces set deleted_at = $2 where id = $1 and deleted_at is null", &[&id.uuid(), &now])
        .await?;
    Ok(changed == 1)
}

pub async fn insert(db: &Connection, id: WorkspaceId, name: &str, now: Timestamp) -> Result<(), Error> {
    db.execute(r"insert into workspaces (id, name, created_at) values ($1, $2, $3)", &[&id.uuid(), &name, &now])
        .await
        .map(drop)
}
