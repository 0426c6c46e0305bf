//! Table `workspaces`.

use service_api::{
    ids::{Id as _, UserId, WorkspaceId},
    workspaces::Workspace,
};
use service_rules::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::memberships::role_from_text;

use crate::database::{Connection, Error};

/// Deletes a workspace; `false`: there is none such.
pub async fn mark_deleted(db: &Connection, id: WorkspaceId, now: Timestamp) -> Result<bool, Error> {
    let changed = db
        .execute(r"update workspaces set deleted_at = $2 where id = $1 and deleted_at is null", &[&id.uuid(), &now])
        .await?;
    Ok(changed == 1)
}

/// Whether it was deleted while this user was one of its owners.
pub async fn was_deleted_under(db: &Connection, id: WorkspaceId, user_id: UserId) -> Result<bool, Error> {
    let row = db
        .query_opt(
            r"select from workspaces w join memberships m on m.workspace_id = w.id
               where w.id = $1 and m.user_id = $2 and m.role = 'owner' and m.ended_at = w.deleted_at",
            &[&id.uuid(), &user_id.uuid()],
        )
        .await?;
    Ok(row.is_some())
}

/// Writes without changing anything: what is confirmed of it is confirmed of what was written before.
pub async fn touch(db: &Connection, id: WorkspaceId) -> Result<(), Error> {
    db.execute(r"update workspaces set deleted_at = deleted_at where id = $1", &[&id.uuid()]).await.map(drop)
}

pub async fn insert(db: &Connection, id: WorkspaceId, name: &str, now: Timestamp) -> Result<(), Error> {
    db.execute(r"insert into workspaces (id, name, created_at) values ($1, $2, $3)", &[&id.uuid(), &name, &now])
        .await
        .map(drop)
}

/// Holds a workspace, so that whoever changes who is in it does so after another; `false`: there is none such.
pub async fn lock(db: &Connection, id: WorkspaceId) -> Result<bool, Error> {
    let sql = r"select from workspaces where id = $1 and deleted_at is null for update";
    Ok(db.query_opt(sql, &[&id.uuid()]).await?.is_some())
}

pub async fn update_name(db: &Connection, id: WorkspaceId, name: &str) -> Result<bool, Error> {
    let sql = r"update workspaces set name = $2 where id = $1 and deleted_at is null";
    Ok(db.execute(sql, &[&id.uuid(), &name]).await? == 1)
}

/// The workspaces of a user behind `after`, or one of them.
pub async fn list_by_user(
    db: &Connection,
    user_id: UserId,
    only: Option<WorkspaceId>,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Workspace>, Error> {
    let rows = db
        .query(
            r"select w.id, w.name, m.role, w.created_at
                from memberships m join workspaces w on w.id = m.workspace_id
               where m.user_id = $1 and m.ended_at is null and w.deleted_at is null
                 and ($2::uuid is null or w.id = $2) and w.id > $3
               order by w.id limit $4",
            &[&user_id.uuid(), &only.map(WorkspaceId::uuid), &after.unwrap_or_default(), &limit],
        )
        .await?;
    let workspace = |row: &Row| {
        Ok(Workspace {
            id: row.try_get::<_, Uuid>("id")?.into(),
            name: row.try_get("name")?,
            role: role_from_text(row.try_get("role")?)?,
            created_at: row.try_get("created_at")?,
        })
    };
    rows.iter().map(workspace).collect()
}

/// How many workspaces a user is in.
pub async fn count_by_user(db: &Connection, user_id: UserId) -> Result<i64, Error> {
    let sql = r"select count(*) as there from memberships where user_id = $1 and ended_at is null";
    let row = db.query_opt(sql, &[&user_id.uuid()]).await?;
    Ok(row.ok_or_else(|| super::impossible("memberships", "user_id"))?.try_get("there")?)
}
