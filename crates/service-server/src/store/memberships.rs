//! Table `memberships`: the members of workspaces and their roles.

use service_api::{
    ids::{Id as _, UserId, WorkspaceId},
    workspaces::{Member, Role},
};
use service_rules::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::database::{Connection, Error};

/// Stores a membership.
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

/// Returns the user's role in a workspace; `None`: the user is not a member.
pub async fn find_role(db: &Connection, user_id: UserId, workspace_id: WorkspaceId) -> Result<Option<Role>, Error> {
    let row = db
        .query_opt(
            r"select role from memberships where user_id = $1 and workspace_id = $2 and ended_at is null",
            &[&user_id.uuid(), &workspace_id.uuid()],
        )
        .await?;
    row.map(|row| role_from_text(row.try_get("role")?)).transpose()
}

/// Returns the user's role in a workspace and locks it: transactions that change it wait until this one ends. `None`:
/// the user is not a member.
pub async fn lock_role(db: &Connection, user_id: UserId, workspace_id: WorkspaceId) -> Result<Option<Role>, Error> {
    let row = db
        .query_opt(
            r"select role from memberships where user_id = $1 and workspace_id = $2 and ended_at is null for share",
            &[&user_id.uuid(), &workspace_id.uuid()],
        )
        .await?;
    row.map(|row| role_from_text(row.try_get("role")?)).transpose()
}

/// A workspace of a user, as pages show it.
pub struct ListedWorkspace {
    pub id: WorkspaceId,
    pub name: String,
    /// The user's own role.
    pub role: Role,
    /// The email address of an owner, which tells workspaces of the same name apart.
    pub owner: String,
}

impl ListedWorkspace {
    /// Its name and its owner in one text.
    #[must_use]
    pub fn with_owner(&self) -> String {
        format!("{} ({})", self.name, self.owner)
    }
}

/// Returns the workspaces of a user by name, each with its longest-standing owner.
pub async fn list_workspaces(db: &Connection, user_id: UserId) -> Result<Vec<ListedWorkspace>, Error> {
    let rows = db
        .query(
            r"select w.id, w.name, m.role, coalesce(owner.email, '') as owner
                from memberships m join workspaces w on w.id = m.workspace_id
                left join lateral (select u.email from memberships o join users u on u.id = o.user_id
                                    where o.workspace_id = w.id and o.role = 'owner' and o.ended_at is null
                                    order by u.disabled_at is not null, o.created_at, o.user_id limit 1) owner on true
               where m.user_id = $1 and m.ended_at is null order by w.name, w.id limit 200",
            &[&user_id.uuid()],
        )
        .await?;
    let read = |row: &Row| {
        Ok(ListedWorkspace {
            id: row.try_get::<_, Uuid>("id")?.into(),
            name: row.try_get("name")?,
            role: role_from_text(row.try_get("role")?)?,
            owner: row.try_get("owner")?,
        })
    };
    rows.iter().map(read).collect()
}

/// Returns the email address of a workspace's longest-standing owner; an enabled one if there is any.
pub async fn find_owner(db: &Connection, workspace_id: WorkspaceId) -> Result<Option<String>, Error> {
    let row = db
        .query_opt(
            r"select u.email from memberships o join users u on u.id = o.user_id
               where o.workspace_id = $1 and o.role = 'owner' and o.ended_at is null
               order by u.disabled_at is not null, o.created_at, o.user_id limit 1",
            &[&workspace_id.uuid()],
        )
        .await?;
    row.map(|row| Ok(row.try_get("email")?)).transpose()
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
            r"insert into memberships (user_id, workspace_id, role, created_at) values ($1, $2, $3, $4)
              on conflict (user_id, workspace_id) do update
                 set role = excluded.role, created_at = excluded.created_at, ended_at = null
               where memberships.ended_at is not null",
            &[&user_id.uuid(), &workspace_id.uuid(), &role_to_text(role), &now],
        )
        .await?;
    Ok(joined == 1)
}

/// Returns up to `limit` members of a workspace after `after`.
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

/// Returns one member of a workspace.
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

/// Changes the role of a member; `false`: the user is not a member.
pub async fn update_role(
    db: &Connection,
    user_id: UserId,
    workspace_id: WorkspaceId,
    role: Role,
) -> Result<bool, Error> {
    let sql = r"update memberships set role = $3 where user_id = $1 and workspace_id = $2 and ended_at is null";
    Ok(db.execute(sql, &[&user_id.uuid(), &workspace_id.uuid(), &role_to_text(role)]).await? == 1)
}

/// Counts the enabled owners of a workspace other than one user. Disabled owners cannot act and are not counted.
pub async fn count_other_owners(db: &Connection, workspace_id: WorkspaceId, beside: UserId) -> Result<i64, Error> {
    let sql = r"select count(*) as owners from memberships m join users u on u.id = m.user_id
                 where m.workspace_id = $1 and m.user_id <> $2 and m.role = 'owner' and m.ended_at is null
                   and u.disabled_at is null";
    let row = db.query_opt(sql, &[&workspace_id.uuid(), &beside.uuid()]).await?;
    Ok(row.ok_or_else(|| super::impossible("memberships", "role"))?.try_get("owners")?)
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
            r"update memberships set ended_at = $3 where user_id = $1 and workspace_id = $2 and ended_at is null",
            &[&user_id.uuid(), &workspace_id.uuid(), &now],
        )
        .await?;
    Ok(changed == 1)
}

/// Whether a membership has ended. Writes the row unchanged, so that the commit confirms the end.
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

/// Deletes up to `size` memberships that ended before `ended_before`.
pub async fn delete_ended(db: &Connection, ended_before: Timestamp, size: i64) -> Result<u64, Error> {
    db.execute(
        r"delete from memberships where (user_id, workspace_id) in
              (select user_id, workspace_id from memberships where ended_at <= $1 limit $2 for update skip locked)",
        &[&ended_before, &size],
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
