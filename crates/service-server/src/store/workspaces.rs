//! Table `workspaces`.

use std::collections::HashMap;

use futures_util::future::try_join_all;
use service_api::{
    ids::{Id as _, UserId, WorkspaceId},
    workspaces::Workspace,
};
use service_rules::{Timestamp, display_name::DisplayName};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::store::memberships::role_from_text;

use crate::database::{Connection, Error};

/// Marks a workspace as deleted; `false`: there is no such workspace.
pub async fn mark_deleted(db: &Connection, id: WorkspaceId, now: Timestamp) -> Result<bool, Error> {
    let changed = db
        .execute(
            r"update workspaces set deleted_at = $2 where id = $1 and shard = $3 and deleted_at is null",
            &[&id.uuid(), &now, &id.shard().number()],
        )
        .await?;
    Ok(changed == 1)
}

/// Whether a workspace was deleted while this user was one of its owners.
pub async fn was_deleted_under(db: &Connection, id: WorkspaceId, user_id: UserId) -> Result<bool, Error> {
    let row = db
        .query_opt(
            r"select from workspaces w join members m on m.workspace_id = w.id and m.shard = w.shard
               where w.id = $1 and w.shard = $3 and m.user_id = $2 and m.role = 'owner' and m.ended_at = w.deleted_at",
            &[&id.uuid(), &user_id.uuid(), &id.shard().number()],
        )
        .await?;
    Ok(row.is_some())
}

/// Writes the row unchanged, so that the commit confirms the earlier change.
pub async fn touch(db: &Connection, id: WorkspaceId) -> Result<(), Error> {
    let sql = r"update workspaces set deleted_at = deleted_at where id = $1 and shard = $2";
    db.execute(sql, &[&id.uuid(), &id.shard().number()]).await.map(drop)
}

/// Stores a workspace.
pub async fn insert(db: &Connection, id: WorkspaceId, name: &DisplayName, now: Timestamp) -> Result<(), Error> {
    db.execute(
        r"insert into workspaces (id, shard, name, created_at) values ($1, $2, $3, $4)",
        &[&id.uuid(), &id.shard().number(), &name.as_str(), &now],
    )
    .await
    .map(drop)
}

/// Locks a workspace: other transactions that change its members wait until this one ends. `false`: there is no such
/// workspace.
pub async fn lock(db: &Connection, id: WorkspaceId) -> Result<bool, Error> {
    let sql = r"select from workspaces where id = $1 and shard = $2 and deleted_at is null for update";
    Ok(db.query_opt(sql, &[&id.uuid(), &id.shard().number()]).await?.is_some())
}

/// Locks several workspaces, in the order that every caller takes.
pub async fn lock_several(db: &Connection, ids: &[WorkspaceId]) -> Result<(), Error> {
    let sql =
        r"select from workspaces where id = any ($1) and shard = $2 and deleted_at is null order by id for update";
    for (shard, ids) in super::by_shard(ids) {
        db.query(sql, &[&ids, &shard]).await?;
    }
    Ok(())
}

/// Renames a workspace; `false`: there is no such workspace.
pub async fn update_name(db: &Connection, id: WorkspaceId, name: &DisplayName) -> Result<bool, Error> {
    let sql = r"update workspaces set name = $2 where id = $1 and shard = $3 and name <> $2 and deleted_at is null";
    Ok(db.execute(sql, &[&id.uuid(), &name.as_str(), &id.shard().number()]).await? == 1)
}

/// Whether a workspace requires a passkey from its members.
pub async fn requires_passkey(db: &Connection, id: WorkspaceId) -> Result<bool, Error> {
    let sql = r"select requires_passkey from workspaces where id = $1 and shard = $2";
    let row = db.query_opt(sql, &[&id.uuid(), &id.shard().number()]).await?;
    row.map_or(Ok(false), |row| Ok(row.try_get("requires_passkey")?))
}

/// Records whether a workspace requires a passkey from its members; `false`: nothing changes.
pub async fn update_passkey_requirement(db: &Connection, id: WorkspaceId, required: bool) -> Result<bool, Error> {
    let sql = r"update workspaces set requires_passkey = $2
                 where id = $1 and shard = $3 and requires_passkey <> $2 and deleted_at is null";
    Ok(db.execute(sql, &[&id.uuid(), &required, &id.shard().number()]).await? == 1)
}

/// Returns up to `limit` workspaces of a user after `after`, or the one named by `only`.
pub async fn list_by_user(
    db: &Connection,
    user_id: UserId,
    only: Option<WorkspaceId>,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Workspace>, Error> {
    let rows = db
        .query(
            r"select workspace_id, role from memberships
               where user_id = $1 and shard = $5 and ended_at is null
                 and ($2::uuid is null or workspace_id = $2) and workspace_id > $3
               order by workspace_id limit $4",
            &[
                &user_id.uuid(),
                &only.map(WorkspaceId::uuid),
                &after.unwrap_or_default(),
                &limit,
                &user_id.shard().number(),
            ],
        )
        .await?;
    let mut roles = Vec::new();
    for row in &rows {
        roles.push((row.try_get::<_, Uuid>("workspace_id")?.into(), role_from_text(row.try_get("role")?)?));
    }
    let ids: Vec<_> = roles.iter().map(|(id, _)| *id).collect();
    let mut found = find_several(db, &ids).await?;
    let workspace = |(id, role)| {
        let StoredWorkspace { name, requires_passkey, created_at } = found.remove(&id)?;
        Some(Workspace { id, name, role, requires_passkey, created_at })
    };
    Ok(roles.into_iter().filter_map(workspace).collect())
}

/// A workspace as stored.
pub struct StoredWorkspace {
    pub name: String,
    /// Whether the workspace requires a passkey from its members.
    pub requires_passkey: bool,
    pub created_at: Timestamp,
}

/// Returns several workspaces by their ids, with one statement for each shard. Deleted ones are left out.
pub async fn find_several(
    db: &Connection,
    ids: &[WorkspaceId],
) -> Result<HashMap<WorkspaceId, StoredWorkspace>, Error> {
    let sql = r"select id, name, requires_passkey, created_at from workspaces
                 where id = any ($1) and shard = $2 and deleted_at is null";
    let read = super::by_shard(ids).into_iter().map(async |(shard, ids)| db.query(sql, &[&ids, &shard]).await);
    let rows = try_join_all(read).await?;
    let workspace = |row: &Row| {
        let stored = StoredWorkspace {
            name: row.try_get("name")?,
            requires_passkey: row.try_get("requires_passkey")?,
            created_at: row.try_get("created_at")?,
        };
        Ok((row.try_get::<_, Uuid>("id")?.into(), stored))
    };
    rows.iter().flatten().map(workspace).collect()
}

/// Returns a workspace that was deleted before `deleted_before`, and locks it until the transaction ends.
pub async fn lock_deleted(db: &Connection, deleted_before: Timestamp) -> Result<Option<WorkspaceId>, Error> {
    let sql = r"/* housekeeping */
                select id from workspaces where deleted_at <= $1 order by deleted_at limit 1 for update skip locked";
    let row = db.query_opt(sql, &[&deleted_before]).await?;
    row.map(|row| Ok(row.try_get::<_, Uuid>("id")?.into())).transpose()
}

/// Deletes the row of a deleted workspace, with its remaining memberships.
pub async fn delete(db: &Connection, id: WorkspaceId) -> Result<(), Error> {
    let shard = id.shard().number();
    db.execute(r"/* housekeeping */ delete from memberships where workspace_id = $1", &[&id.uuid()]).await?;
    db.execute(r"delete from members where workspace_id = $1 and shard = $2", &[&id.uuid(), &shard]).await?;
    let sql = r"delete from workspaces where id = $1 and shard = $2 and deleted_at is not null";
    db.execute(sql, &[&id.uuid(), &shard]).await.map(drop)
}

/// Counts the workspaces of a user.
pub async fn count_by_user(db: &Connection, user_id: UserId) -> Result<i64, Error> {
    let sql = r"select count(*) as there from memberships where user_id = $1 and shard = $2 and ended_at is null";
    let row = db.query_opt(sql, &[&user_id.uuid(), &user_id.shard().number()]).await?;
    Ok(row.ok_or_else(|| super::impossible("memberships", "user_id"))?.try_get("there")?)
}
