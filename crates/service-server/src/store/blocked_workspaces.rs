//! Table `blocked_workspaces`: workspaces from which a user accepts no invitations.

use std::collections::HashSet;

use service_api::{
    ids::{Id as _, UserId, WorkspaceId},
    workspaces::BlockedWorkspace,
};
use uuid::Uuid;

use crate::{
    database::{Connection, Error},
    store::emails::{self, EmailKey},
};

/// Blocks a workspace; `false`: it was blocked already, and its row is written unchanged.
pub async fn insert(db: &Connection, user_id: UserId, blocked: &BlockedWorkspace) -> Result<bool, Error> {
    let row = db
        .query_opt(
            r"insert into blocked_workspaces as b (user_id, workspace_id, shard, name, blocked_at)
              values ($1, $2, $3, $4, $5)
              on conflict (user_id, workspace_id, shard) do update set name = b.name
              returning b.blocked_at = $5 as added",
            &[
                &user_id.uuid(),
                &blocked.workspace_id.uuid(),
                &user_id.shard().number(),
                &blocked.name,
                &blocked.blocked_at,
            ],
        )
        .await?;
    Ok(row.ok_or_else(|| super::impossible("blocked_workspaces", "name"))?.try_get("added")?)
}

/// Unblocks a workspace; `false`: it was not blocked.
pub async fn delete(db: &Connection, user_id: UserId, workspace_id: WorkspaceId) -> Result<bool, Error> {
    let sql = r"delete from blocked_workspaces where user_id = $1 and workspace_id = $2 and shard = $3";
    Ok(db.execute(sql, &[&user_id.uuid(), &workspace_id.uuid(), &user_id.shard().number()]).await? == 1)
}

/// Deletes the blocks of a workspace by all users.
pub async fn delete_by_workspace(db: &Connection, workspace_id: WorkspaceId) -> Result<u64, Error> {
    let sql = r"/* every shard */ delete from blocked_workspaces where workspace_id = $1";
    db.execute(sql, &[&workspace_id.uuid()]).await
}

/// Counts the workspaces that a user has blocked.
pub async fn count(db: &Connection, user_id: UserId) -> Result<i64, Error> {
    let sql = r"select count(*) as there from blocked_workspaces where user_id = $1 and shard = $2";
    let row = db.query_opt(sql, &[&user_id.uuid(), &user_id.shard().number()]).await?;
    Ok(row.ok_or_else(|| super::impossible("blocked_workspaces", "user_id"))?.try_get("there")?)
}

/// Returns up to `limit` workspaces that a user has blocked, after `after`.
pub async fn list(
    db: &Connection,
    user_id: UserId,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<BlockedWorkspace>, Error> {
    let rows = db
        .query(
            r"select workspace_id, name, blocked_at from blocked_workspaces
               where user_id = $1 and shard = $4 and workspace_id > $2 order by workspace_id limit $3",
            &[&user_id.uuid(), &after.unwrap_or_default(), &limit, &user_id.shard().number()],
        )
        .await?;
    let read = |row: &tokio_postgres::Row| {
        Ok(BlockedWorkspace {
            workspace_id: row.try_get::<_, Uuid>("workspace_id")?.into(),
            name: row.try_get("name")?,
            blocked_at: row.try_get("blocked_at")?,
        })
    };
    rows.iter().map(read).collect()
}

/// Returns those of these workspaces that a user has blocked.
pub async fn find_several(
    db: &Connection,
    user_id: UserId,
    workspaces: &[WorkspaceId],
) -> Result<HashSet<WorkspaceId>, Error> {
    let ids: Vec<_> = workspaces.iter().map(|id| id.uuid()).collect();
    let sql = r"select workspace_id from blocked_workspaces
                 where user_id = $1 and shard = $2 and workspace_id = any ($3)";
    let rows = db.query(sql, &[&user_id.uuid(), &user_id.shard().number(), &ids]).await?;
    rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("workspace_id")?.into())).collect()
}

/// Whether the user with this address has blocked a workspace.
pub async fn blocks_address(db: &Connection, email: EmailKey<'_>, workspace_id: WorkspaceId) -> Result<bool, Error> {
    let user_id = emails::find_id(db, email).await?;
    Ok(!find_several(db, user_id, &[workspace_id]).await?.is_empty())
}
