//! Table `members`: the members of a workspace, in the shard of the workspace. See `memberships.rs`.

use std::collections::HashMap;

use futures_util::future::try_join_all;
use service_api::{
    ids::{Id as _, UserId, WorkspaceId},
    workspaces::{Member, Role},
};
use service_rules::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::{
    database::{Connection, Error},
    store::{memberships::role_from_text, users, workspaces},
};

/// How many owners are considered when one is to be named.
const OWNERS_READ: i64 = 20;

/// Adds a member, or one who was a member before.
pub(super) async fn replace(
    db: &Connection,
    workspace_id: WorkspaceId,
    user_id: UserId,
    role: Role,
    now: Timestamp,
) -> Result<(), Error> {
    db.execute(
        r"insert into members (workspace_id, user_id, shard, role, created_at) values ($1, $2, $3, $4, $5)
          on conflict (workspace_id, user_id, shard) do update
             set role = excluded.role, created_at = excluded.created_at, ended_at = null",
        &[&workspace_id.uuid(), &user_id.uuid(), &workspace_id.shard().number(), &role.as_str(), &now],
    )
    .await
    .map(drop)
}

/// Changes the role of a member.
pub(super) async fn update_role(
    db: &Connection,
    workspace_id: WorkspaceId,
    user_id: UserId,
    role: Role,
) -> Result<(), Error> {
    let sql = r"update members set role = $3
                 where workspace_id = $1 and user_id = $2 and shard = $4 and ended_at is null";
    let (role, shard) = (role.as_str(), workspace_id.shard().number());
    db.execute(sql, &[&workspace_id.uuid(), &user_id.uuid(), &role, &shard]).await.map(drop)
}

/// Ends the membership of one user, or of all.
pub(super) async fn mark_ended(
    db: &Connection,
    workspace_id: WorkspaceId,
    user_id: Option<UserId>,
    now: Timestamp,
) -> Result<(), Error> {
    let sql = r"update members set ended_at = $3
                 where workspace_id = $1 and shard = $4 and ($2::uuid is null or user_id = $2) and ended_at is null";
    let shard = workspace_id.shard().number();
    db.execute(sql, &[&workspace_id.uuid(), &user_id.map(UserId::uuid), &now, &shard]).await.map(drop)
}

/// Deletes up to `size` rows of memberships that ended before `ended_before`.
pub async fn delete_ended(db: &Connection, ended_before: Timestamp, size: i64) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from members where (workspace_id, user_id) in
              (select workspace_id, user_id from members where ended_at <= $1 limit $2 for update skip locked)",
        &[&ended_before, &size],
    )
    .await
}

/// Returns up to `limit` members of a workspace after `after`.
pub async fn list(
    db: &Connection,
    workspace_id: WorkspaceId,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Member>, Error> {
    let rows = db
        .query(
            r"select user_id, role, created_at from members
               where workspace_id = $1 and shard = $4 and ended_at is null and user_id > $2
               order by user_id limit $3",
            &[&workspace_id.uuid(), &after.unwrap_or_default(), &limit, &workspace_id.shard().number()],
        )
        .await?;
    with_emails(db, &rows).await
}

/// Returns one member of a workspace.
pub async fn find(db: &Connection, workspace_id: WorkspaceId, user_id: UserId) -> Result<Option<Member>, Error> {
    let rows = db
        .query(
            r"select user_id, role, created_at from members
               where workspace_id = $1 and user_id = $2 and shard = $3 and ended_at is null",
            &[&workspace_id.uuid(), &user_id.uuid(), &workspace_id.shard().number()],
        )
        .await?;
    Ok(with_emails(db, &rows).await?.pop())
}

/// Adds the email addresses of members, which are in the users' shards.
async fn with_emails(db: &Connection, rows: &[Row]) -> Result<Vec<Member>, Error> {
    let ids =
        rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("user_id")?.into())).collect::<Result<Vec<_>, Error>>()?;
    let mut users = users::find_several(db, &ids).await?;
    let mut members = Vec::new();
    for (row, user_id) in rows.iter().zip(ids) {
        let Some(user) = users.remove(&user_id) else { continue };
        let role = role_from_text(row.try_get("role")?)?;
        let joined_at = row.try_get("created_at")?;
        members.push(Member { user_id, email: user.email, name: user.name, role, joined_at });
    }
    Ok(members)
}

/// An enabled owner of a workspace.
pub struct Owner {
    pub user_id: UserId,
    pub email: String,
}

/// Returns the enabled owners of a workspace.
pub async fn list_owners(db: &Connection, workspace_id: WorkspaceId) -> Result<Vec<Owner>, Error> {
    let sql = r"select user_id from members
                 where workspace_id = $1 and shard = $2 and role = 'owner' and ended_at is null";
    let rows = db.query(sql, &[&workspace_id.uuid(), &workspace_id.shard().number()]).await?;
    let ids =
        rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("user_id")?.into())).collect::<Result<Vec<_>, Error>>()?;
    let users = users::find_several(db, &ids).await?;
    let enabled = users.into_iter().filter(|(_, user)| !user.disabled);
    Ok(enabled.map(|(user_id, user)| Owner { user_id, email: user.email }).collect())
}

/// Which members a workspace has beside one user.
#[derive(Clone, Copy, Debug, Default)]
pub struct Others {
    pub has_member: bool,
    /// Disabled owners cannot act and do not count.
    pub has_owner: bool,
}

/// Returns which members a workspace has beside one user.
pub async fn find_others_of(db: &Connection, workspace_id: WorkspaceId, beside: UserId) -> Result<Others, Error> {
    Ok(find_others(db, &[workspace_id], beside).await?.remove(&workspace_id).unwrap_or_default())
}

/// Returns which members each workspace has beside one user.
pub async fn find_others(
    db: &Connection,
    workspaces: &[WorkspaceId],
    beside: UserId,
) -> Result<HashMap<WorkspaceId, Others>, Error> {
    let sql = r"select m.workspace_id, m.user_id, m.is_owner
                  from unnest($1::uuid[]) as wanted (id)
                 cross join lateral ((select workspace_id, user_id, true as is_owner from members
                                       where workspace_id = wanted.id and shard = $2 and user_id <> $3
                                         and role = 'owner' and ended_at is null)
                                     union all
                                     (select workspace_id, user_id, false from members
                                       where workspace_id = wanted.id and shard = $2 and user_id <> $3
                                         and role <> 'owner' and ended_at is null limit 1)) m";
    let beside = beside.uuid();
    let read = super::by_shard(workspaces).into_iter();
    let read = read.map(async |(shard, ids)| db.query(sql, &[&ids, &shard, &beside]).await);
    let rows: Vec<_> = try_join_all(read).await?.into_iter().flatten().collect();
    let ids =
        rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("user_id")?.into())).collect::<Result<Vec<_>, Error>>()?;
    let users = users::find_several(db, &ids).await?;
    let mut found = HashMap::<_, Others>::new();
    for (row, user_id) in rows.iter().zip(ids) {
        let others = found.entry(row.try_get::<_, Uuid>("workspace_id")?.into()).or_default();
        others.has_member = true;
        let is_enabled = users.get(&user_id).is_some_and(|user| !user.disabled);
        others.has_owner |= is_enabled && row.try_get("is_owner")?;
    }
    Ok(found)
}

/// Returns the email address of a workspace's longest-standing owner; an enabled one if there is any.
pub async fn find_owner(db: &Connection, workspace_id: WorkspaceId) -> Result<Option<String>, Error> {
    Ok(find_owners(db, &[workspace_id]).await?.remove(&workspace_id))
}

/// Returns the email address of each workspace's longest-standing owner; an enabled one if there is any.
async fn find_owners(db: &Connection, workspaces: &[WorkspaceId]) -> Result<HashMap<WorkspaceId, String>, Error> {
    let sql = r"select o.workspace_id, o.user_id
                  from unnest($1::uuid[]) as wanted (id)
                 cross join lateral (select workspace_id, user_id, created_at from members
                                      where workspace_id = wanted.id and shard = $2 and role = 'owner' and ended_at is null
                                      order by created_at, user_id limit $3) o
                 order by o.workspace_id, o.created_at, o.user_id";
    let read = super::by_shard(workspaces).into_iter();
    let read = read.map(async |(shard, ids)| db.query(sql, &[&ids, &shard, &OWNERS_READ]).await);
    let rows: Vec<_> = try_join_all(read).await?.into_iter().flatten().collect();
    let ids =
        rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("user_id")?.into())).collect::<Result<Vec<_>, Error>>()?;
    let users = users::find_several(db, &ids).await?;
    let mut owners = HashMap::<_, &users::StoredUser>::new();
    for (row, user_id) in rows.iter().zip(ids) {
        let Some(user) = users.get(&user_id) else { continue };
        let owner = owners.entry(row.try_get::<_, Uuid>("workspace_id")?.into()).or_insert(user);
        if owner.disabled && !user.disabled {
            *owner = user;
        }
    }
    Ok(owners.into_iter().map(|(id, user)| (id, user.email.clone())).collect())
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
    let own = workspaces::list_by_user(db, user_id, None, None, 200).await?;
    let ids: Vec<_> = own.iter().map(|workspace| workspace.id).collect();
    let mut owners = find_owners(db, &ids).await?;
    let listed = own.into_iter().map(|workspace| ListedWorkspace {
        id: workspace.id,
        name: workspace.name,
        role: workspace.role,
        owner: owners.remove(&workspace.id).unwrap_or_default(),
    });
    let mut listed: Vec<_> = listed.collect();
    listed.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
    Ok(listed)
}
