//! Table `memberships`.

use service_api::{
    ids::{Id as _, UserId, WorkspaceId},
    workspaces::{Member, Role},
};
use service_rules::Timestamp;
use tokio_postgres::Row;
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
        &[&user_id.uuid(), &workspace_id.uuid(), &role_to_text(role), &now],
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
    row.map(|row| role_from_text(row.try_get("role")?)).transpose()
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

/// Lets a user in, or in again, with this role; a role that they have stays.
pub async fn join(
    db: &Connection,
    user_id: UserId,
    workspace_id: WorkspaceId,
    role: Role,
    now: Timestamp,
) -> Result<bool, Error> {
    let joined = db
        .execute(
            r"insert into memberships (user_id, workspace_id, role, created_at) values ($1, $2, $3, $4)
              on conflict (user_id, workspace_id) do update
                 set role = excluded.role, created_at = excluded.created_at, ended_at = null
               where memberships.ended_at is not null",
            &[&user_id.uuid(), &workspace_id.uuid(), &role_to_text(role), &now],
        )
        .await?;
    Ok(joined == 1)
}

/// Up to `limit` of those who are in a workspace, behind `after`.
pub async fn list_members(
    db: &Connection,
    workspace_id: WorkspaceId,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Member>, Error> {
    let rows = db
        .query(
            r"select m.user_id, u.email, m.role, m.created_at from memberships m join users u on u.id = m.user_id
               where m.workspace_id = $1 and m.ended_at is null and m.user_id > $2
               order by m.user_id limit $3",
            &[&workspace_id.uuid(), &after.unwrap_or_default(), &limit],
        )
        .await?;
    rows.iter().map(from_row).collect()
}

pub async fn find_member(db: &Connection, workspace_id: WorkspaceId, user_id: UserId) -> Result<Option<Member>, Error> {
    let row = db
        .query_opt(
            r"select m.user_id, u.email, m.role, m.created_at from memberships m join users u on u.id = m.user_id
               where m.workspace_id = $1 and m.ended_at is null and m.user_id = $2",
            &[&workspace_id.uuid(), &user_id.uuid()],
        )
        .await?;
    row.as_ref().map(from_row).transpose()
}

fn from_row(row: &Row) -> Result<Member, Error> {
    Ok(Member {
        user_id: row.try_get::<_, Uuid>("user_id")?.into(),
        email: row.try_get("email")?,
        role: role_from_text(row.try_get("role")?)?,
        joined_at: row.try_get("created_at")?,
    })
}

pub async fn update_role(
    db: &Connection,
    user_id: UserId,
    workspace_id: WorkspaceId,
    role: Role,
) -> Result<bool, Error> {
    let sql = r"update memberships set role = $3 where user_id = $1 and workspace_id = $2 and ended_at is null";
    Ok(db.execute(sql, &[&user_id.uuid(), &workspace_id.uuid(), &role_to_text(role)]).await? == 1)
}

/// How many owners a workspace has.
pub async fn count_owners(db: &Connection, workspace_id: WorkspaceId) -> Result<i64, Error> {
    let sql = r"select count(*) as owners from memberships
                 where workspace_id = $1 and role = 'owner' and ended_at is null";
    let row = db.query_opt(sql, &[&workspace_id.uuid()]).await?;
    Ok(row.ok_or_else(|| super::impossible("memberships", "role"))?.try_get("owners")?)
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

/// Whether a membership has ended. Writes it as it is: what is confirmed of that is confirmed of its end.
pub async fn touch_ended(db: &Connection, user_id: UserId, workspace_id: WorkspaceId) -> Result<bool, Error> {
    let sql = r"update memberships set ended_at = ended_at
                 where user_id = $1 and workspace_id = $2 and ended_at is not null";
    Ok(db.execute(sql, &[&user_id.uuid(), &workspace_id.uuid()]).await? == 1)
}

/// Ends every membership of a workspace.
pub async fn mark_all_ended(db: &Connection, workspace_id: WorkspaceId, now: Timestamp) -> Result<u64, Error> {
    db.execute(
        r"update memberships set ended_at = $2 where workspace_id = $1 and ended_at is null",
        &[&workspace_id.uuid(), &now],
    )
    .await
}

pub(super) const fn role_to_text(role: Role) -> &'static str {
    match role {
        Role::Owner => "owner",
        Role::Member => "member",
        Role::Viewer => "viewer",
    }
}

pub(super) fn role_from_text(text: &str) -> Result<Role, Error> {
    match text {
        "owner" => Ok(Role::Owner),
        "member" => Ok(Role::Member),
        "viewer" => Ok(Role::Viewer),
        _ => Err(super::impossible("memberships", "role")),
    }
}
