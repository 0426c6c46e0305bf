//! Table `memberships`.

use service_api::{
    ids::{Id as _, UserId, WorkspaceId},
    workspaces::Role,
};
use service_rules::Timestamp;
use uuid::Uuid;

use crate::database::{Connection, Error};

pub async fn insert(
    db: &Connection,
    user_id: UserId,
    workspace_id: WorkspaceId,
    role: Role,
    now: Timestamp,
) -> Result<(), Error> {
    db.execute(
        r"insert into memberships (user_id, workspace_id, role, created_at) values ($1, $2, $3, $4)",
        &[&user_id.uuid(), &workspace_id.uuid(), &to_text(role), &now],
    )
    .await
    .map(drop)
}

/// The user's role in a workspace that still exists; `None` for strangers.
pub async fn find_role(db: &Connection, user_id: UserId, workspace_id: WorkspaceId) -> Result<Option<Role>, Error> {
    let row = db
        .query_opt(
            r"select role from memberships where user_id = $1 and workspace_id = $2 and ended_at is null",
            &[&user_id.uuid(), &workspace_id.uuid()],
        )
        .await?;
    row.map(|row| from_text(row.try_get("role")?)).transpose()
}

/// The workspaces that a user is in, with their names.
pub async fn list_workspaces(db: &Connection, user_id: UserId) -> Result<Vec<(WorkspaceId, String)>, Error> {
    let rows = db
        .query(
            r"select w.id, w.name from memberships m join workspaces w on w.id = m.workspace_id
               where m.user_id = $1 and m.ended_at is null order by w.name, w.id limit 200",
            &[&user_id.uuid()],
        )
        .await?;
    rows.iter().map(|row| Ok((row.try_get::<_, Uuid>("id")?.into(), row.try_get("name")?))).collect()
}

/// Ends a membership; `false`: there is none that could end.
pub async fn mark_ended(
    db: &Connection,
    user_id: UserId,
    workspace_id: WorkspaceId,
    now: Timestamp,
) -> Result<bool, Error> {
    let changed = db
        .execute(
            r"update memberships set ended_at = $3 where user_id = $1 and workspace_id = $2 and ended_at is null",
            &[&user_id.uuid(), &workspace_id.uuid(), &now],
        )
        .await?;
    Ok(changed == 1)
}

/// Ends every membership of a workspace.
pub async fn mark_all_ended(db: &Connection, workspace_id: WorkspaceId, now: Timestamp) -> Result<u64, Error> {
    db.execute(
        r"update memberships set ended_at = $2 where workspace_id = $1 and ended_at is null",
        &[&workspace_id.uuid(), &now],
    )
    .await
}

const fn to_text(role: Role) -> &'static str {
    match role {
        Role::Owner => "owner",
        Role::Member => "member",
        Role::Viewer => "viewer",
    }
}

fn from_text(text: &str) -> Result<Role, Error> {
    match text {
        "owner" => Ok(Role::Owner),
        "member" => Ok(Role::Member),
        "viewer" => Ok(Role::Viewer),
        _ => Err(super::impossible("memberships", "role")),
    }
}
