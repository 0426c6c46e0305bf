//! Table `memberships`: which workspaces a user is in, and with which role. It decides about access.
//!
//! A row is in the shard of its user. The table `members` has the same rows in the shard of the workspace, to list the
//! members of one. Functions that write here write there too.

use std::collections::HashSet;

use service_api::{
    ids::{Id as _, UserId, WorkspaceId},
    workspaces::Role,
};
use service_rules::Timestamp;
use uuid::Uuid;

use crate::{
    database::{Connection, Error},
    store::members,
};

/// Returns the user's role in a workspace; `None`: the user is not a member.
pub async fn find_role(db: &Connection, user_id: UserId, workspace_id: WorkspaceId) -> Result<Option<Role>, Error> {
    let row = db
        .query_opt(
            r"select role from memberships
               where user_id = $1 and workspace_id = $2 and shard = $3 and ended_at is null",
            &[&user_id.uuid(), &workspace_id.uuid(), &user_id.shard().number()],
        )
        .await?;
    row.map(|row| role_from_text(row.try_get("role")?)).transpose()
}

/// Returns those of these workspaces that the user is a member of.
pub async fn find_several(
    db: &Connection,
    user_id: UserId,
    workspaces: &[WorkspaceId],
) -> Result<HashSet<WorkspaceId>, Error> {
    let ids: Vec<_> = workspaces.iter().map(|id| id.uuid()).collect();
    let sql = r"select workspace_id from memberships
                 where user_id = $1 and shard = $2 and workspace_id = any ($3) and ended_at is null";
    let rows = db.query(sql, &[&user_id.uuid(), &user_id.shard().number(), &ids]).await?;
    rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("workspace_id")?.into())).collect()
}

/// Returns the workspaces that a user owns, in the order of their ids.
pub async fn list_owned(db: &Connection, user_id: UserId) -> Result<Vec<WorkspaceId>, Error> {
    let sql = r"select workspace_id from memberships
                 where user_id = $1 and shard = $2 and role = 'owner' and ended_at is null order by workspace_id";
    let rows = db.query(sql, &[&user_id.uuid(), &user_id.shard().number()]).await?;
    rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("workspace_id")?.into())).collect()
}

/// Returns the user's role in a workspace and locks it: transactions that change it wait until this one ends. `None`:
/// the user is not a member.
pub async fn lock_role(db: &Connection, user_id: UserId, workspace_id: WorkspaceId) -> Result<Option<Role>, Error> {
    let row = db
        .query_opt(
            r"select role from memberships
               where user_id = $1 and workspace_id = $2 and shard = $3 and ended_at is null for share",
            &[&user_id.uuid(), &workspace_id.uuid(), &user_id.shard().number()],
        )
        .await?;
    row.map(|row| role_from_text(row.try_get("role")?)).transpose()
}

/// Adds a user to a workspace with this role; `false`: the user is a member already, and keeps the role.
pub async fn join(
    db: &Connection,
    user_id: UserId,
    workspace_id: WorkspaceId,
    role: Role,
    now: Timestamp,
) -> Result<bool, Error> {
    let joined = db
        .execute(
            r"insert into memberships (user_id, workspace_id, shard, role, created_at) values ($1, $2, $3, $4, $5)
              on conflict (user_id, workspace_id, shard) do update
                 set role = excluded.role, created_at = excluded.created_at, ended_at = null
               where memberships.ended_at is not null",
            &[&user_id.uuid(), &workspace_id.uuid(), &user_id.shard().number(), &role.as_str(), &now],
        )
        .await?;
    if joined == 1 {
        members::replace(db, workspace_id, user_id, role, now).await?;
    }
    Ok(joined == 1)
}

/// Changes the role of a member; `false`: the user is not a member.
pub async fn update_role(
    db: &Connection,
    user_id: UserId,
    workspace_id: WorkspaceId,
    role: Role,
) -> Result<bool, Error> {
    let sql = r"update memberships set role = $3
                 where user_id = $1 and workspace_id = $2 and shard = $4 and ended_at is null";
    let (role_text, shard) = (role.as_str(), user_id.shard().number());
    let changed = db.execute(sql, &[&user_id.uuid(), &workspace_id.uuid(), &role_text, &shard]).await?;
    members::update_role(db, workspace_id, user_id, role).await?;
    Ok(changed == 1)
}

/// Ends a membership; `false`: the user is not a member.
pub async fn mark_ended(
    db: &Connection,
    user_id: UserId,
    workspace_id: WorkspaceId,
    now: Timestamp,
) -> Result<bool, Error> {
    let changed = db
        .execute(
            r"update memberships set ended_at = $3
               where user_id = $1 and workspace_id = $2 and shard = $4 and ended_at is null",
            &[&user_id.uuid(), &workspace_id.uuid(), &now, &user_id.shard().number()],
        )
        .await?;
    members::mark_ended(db, workspace_id, Some(user_id), now).await?;
    Ok(changed == 1)
}

/// Whether a membership has ended. Writes the row unchanged, so that the commit confirms the end.
pub async fn touch_ended(db: &Connection, user_id: UserId, workspace_id: WorkspaceId) -> Result<bool, Error> {
    let sql = r"update memberships set ended_at = ended_at
                 where user_id = $1 and workspace_id = $2 and shard = $3 and ended_at is not null";
    Ok(db.execute(sql, &[&user_id.uuid(), &workspace_id.uuid(), &user_id.shard().number()]).await? == 1)
}

/// Ends every membership of a workspace.
pub async fn mark_all_ended(db: &Connection, workspace_id: WorkspaceId, now: Timestamp) -> Result<u64, Error> {
    members::mark_ended(db, workspace_id, None, now).await?;
    db.execute(
        r"/* every shard */ update memberships set ended_at = $2 where workspace_id = $1 and ended_at is null",
        &[&workspace_id.uuid(), &now],
    )
    .await
}

/// Deletes up to `size` memberships that ended before `ended_before`.
pub async fn delete_ended(db: &Connection, ended_before: Timestamp, size: i64) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from memberships where (user_id, workspace_id) in
              (select user_id, workspace_id from memberships where ended_at <= $1 limit $2 for update skip locked)",
        &[&ended_before, &size],
    )
    .await
}

pub(super) fn role_from_text(text: &str) -> Result<Role, Error> {
    match text {
        "owner" => Ok(Role::Owner),
        "member" => Ok(Role::Member),
        "viewer" => Ok(Role::Viewer),
        _ => Err(super::impossible("memberships", "role")),
    }
}
