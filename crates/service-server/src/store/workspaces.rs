//! Table `workspaces`.

use service_api::ids::{Id as _, WorkspaceId};
use service_rules::Timestamp;

use crate::database::{Connection, Error};

pub async fn insert(db: &Connection, id: WorkspaceId, name: &str, now: Timestamp) -> Result<(), Error> {
    db.execute(r"insert into workspaces (id, name, created_at) values ($1, $2, $3)", &[&id.uuid(), &name, &now])
        .await
        .map(drop)
}
