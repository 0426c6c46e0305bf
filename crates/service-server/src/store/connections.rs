//! Table `connections`: a workspace's connections to OpenID providers. A row is in the shard of the workspace.

use std::collections::HashSet;

use futures_util::future::try_join_all;
use service_api::{
    connections::{AuthMethod, ConnectionHealth},
    ids::{ConnectionId, Id as _, UserId, WorkspaceId},
    workspaces::Role,
};
use service_rules::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::{
    database::{Connection, Error},
    issuers::trusted_issuer::TrustedIssuer,
    store::{memberships::role_from_text, trusted_issuers},
};

/// A connection as stored.
pub struct StoredConnection {
    pub id: ConnectionId,
    pub workspace_id: WorkspaceId,
    pub issuer: TrustedIssuer,
    pub health: ConnectionHealth,
    pub name: String,
    pub client_id: Option<String>,
    pub auth_method: AuthMethod,
    /// The secret, or the private key of `private_key_jwt`. Sealed for the place [`StoredConnection::secret_place`].
    pub client_secret: Option<Vec<u8>>,
    pub default_role: Role,
    pub session_hours: i16,
    pub token_days: i16,
    /// Owners who may sign in by email code although the connection is required.
    pub break_glass: Vec<UserId>,
    pub created_by: UserId,
    pub created_at: Timestamp,
    /// When an owner last signed in through the connection to try it.
    pub tried_at: Option<Timestamp>,
    pub enabled_at: Option<Timestamp>,
    pub required_at: Option<Timestamp>,
    /// What the owner chose when the connection became required: credentials without the connection are revoked.
    pub revoke_existing: bool,
    /// Credentials of users who signed in before this time, and not through the connection, are being revoked.
    pub revoke_before: Option<Timestamp>,
    /// Users of the domains who never signed in through the connection are being given a token limit from this time on.
    pub limit_from: Option<Timestamp>,
}

impl StoredConnection {
    /// The place that the client secret of a connection is sealed for.
    #[must_use]
    pub fn secret_place(id: ConnectionId) -> String {
        format!("connections.client_secret.{id}")
    }

    /// Requires the connection from this time on.
    pub const fn require(&mut self, now: Timestamp, revoke_existing: bool) {
        self.required_at = Some(now);
        self.revoke_existing = revoke_existing;
        self.revoke_before = if revoke_existing { Some(now) } else { None };
        self.limit_from = Some(now);
    }

    /// Requires the connection no longer.
    pub const fn stop_requiring(&mut self) {
        (self.required_at, self.revoke_existing) = (None, false);
        (self.revoke_before, self.limit_from) = (None, None);
    }
}

/// Returns a connection with its issuer. Deleted ones are not found.
pub async fn find(db: &Connection, id: ConnectionId) -> Result<Option<StoredConnection>, Error> {
    let row = db
        .query_opt(
            r"select c.id, c.workspace_id, c.name, c.client_id, c.auth_method, c.client_secret, c.default_role, c.session_hours,
                     c.token_days, c.break_glass, c.created_by, c.created_at, c.tried_at, c.enabled_at, c.required_at,
                     c.revoke_existing, c.revoke_before, c.limit_from, c.issuer_id, i.issuer, i.jwks, i.algorithms, i.purposes,
                     i.last_success_at, i.last_error, i.last_error_at
                from connections c join trusted_issuers i on i.id = c.issuer_id and i.shard = c.shard
               where c.id = $1 and c.shard = $2 and c.deleted_at is null",
            &[&id.uuid(), &id.shard().number()],
        )
        .await?;
    row.as_ref().map(from_row).transpose()
}

/// Whether users can sign in through a connection: it is enabled, and not deleted.
pub async fn is_enabled(db: &Connection, id: ConnectionId) -> Result<bool, Error> {
    let sql = r"select from connections where id = $1 and shard = $2 and enabled_at is not null and deleted_at is null";
    Ok(db.query_opt(sql, &[&id.uuid(), &id.shard().number()]).await?.is_some())
}

/// Returns those of several workspaces that have a connection.
pub async fn find_workspaces_with_some(
    db: &Connection,
    workspaces: &[WorkspaceId],
) -> Result<HashSet<WorkspaceId>, Error> {
    let sql = r"select workspace_id from connections
                 where workspace_id = any ($1) and shard = $2 and deleted_at is null";
    let read = super::by_shard(workspaces).into_iter();
    let rows = try_join_all(read.map(async |(shard, ids)| db.query(sql, &[&ids, &shard]).await)).await?;
    rows.iter().flatten().map(|row| Ok(row.try_get::<_, Uuid>("workspace_id")?.into())).collect()
}

/// Returns the connections of a workspace, oldest first.
pub async fn list(db: &Connection, workspace_id: WorkspaceId) -> Result<Vec<StoredConnection>, Error> {
    let rows = db
        .query(
            r"select c.id, c.workspace_id, c.name, c.client_id, c.auth_method, c.client_secret, c.default_role, c.session_hours,
                     c.token_days, c.break_glass, c.created_by, c.created_at, c.tried_at, c.enabled_at, c.required_at,
                     c.revoke_existing, c.revoke_before, c.limit_from, c.issuer_id, i.issuer, i.jwks, i.algorithms, i.purposes,
                     i.last_success_at, i.last_error, i.last_error_at
                from connections c join trusted_issuers i on i.id = c.issuer_id and i.shard = c.shard
               where c.workspace_id = $1 and c.shard = $2 and c.deleted_at is null
               order by c.id",
            &[&workspace_id.uuid(), &workspace_id.shard().number()],
        )
        .await?;
    rows.iter().map(from_row).collect()
}

/// Locks a connection: other transactions that change it wait until this one ends.
pub async fn lock(db: &Connection, id: ConnectionId) -> Result<(), Error> {
    let sql = r"select from connections where id = $1 and shard = $2 for update";
    db.query_opt(sql, &[&id.uuid(), &id.shard().number()]).await.map(drop)
}

/// Returns a connection, and locks it: a change waits until this transaction ends.
pub async fn hold(db: &Connection, id: ConnectionId) -> Result<Option<StoredConnection>, Error> {
    let sql = r"select from connections where id = $1 and shard = $2 for share";
    db.query_opt(sql, &[&id.uuid(), &id.shard().number()]).await?;
    find(db, id).await
}

/// Takes a user from the break-glass owners of all connections of a workspace. Where one is required, the user's tokens get
/// the limit that those of other users have.
pub async fn remove_break_glass(db: &Connection, workspace_id: WorkspaceId, user_id: UserId) -> Result<(), Error> {
    let sql = r"update connections
                   set break_glass = array_remove(break_glass, $3), limit_from = coalesce(limit_from, required_at)
                 where workspace_id = $1 and shard = $2 and $3 = any (break_glass)";
    db.execute(sql, &[&workspace_id.uuid(), &workspace_id.shard().number(), &user_id.uuid()]).await.map(drop)
}

/// Stores a connection. Its issuer has a row of its own.
pub async fn insert(db: &Connection, new: &StoredConnection) -> Result<(), Error> {
    db.execute(
        r"insert into connections (id, shard, workspace_id, issuer_id, name, client_id, auth_method, client_secret,
                                   default_role, session_hours, token_days, break_glass, created_by, created_at)
          values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
        &[
            &new.id.uuid(),
            &new.id.shard().number(),
            &new.workspace_id.uuid(),
            &new.issuer.id.uuid(),
            &new.name,
            &new.client_id,
            &new.auth_method.as_str(),
            &new.client_secret,
            &new.default_role.as_str(),
            &new.session_hours,
            &new.token_days,
            &break_glass(new),
            &new.created_by.uuid(),
            &new.created_at,
        ],
    )
    .await
    .map(drop)
}

/// Writes everything of a connection that owners can change.
pub async fn update(db: &Connection, changed: &StoredConnection) -> Result<(), Error> {
    db.execute(
        r"update connections
             set name = $3, client_id = $4, auth_method = $5, client_secret = $6, default_role = $7, session_hours = $8,
                 token_days = $9, break_glass = $10, tried_at = $11, enabled_at = $12, required_at = $13, revoke_before = $14,
                 revoke_existing = $15, limit_from = $16
           where id = $1 and shard = $2 and deleted_at is null",
        &[
            &changed.id.uuid(),
            &changed.id.shard().number(),
            &changed.name,
            &changed.client_id,
            &changed.auth_method.as_str(),
            &changed.client_secret,
            &changed.default_role.as_str(),
            &changed.session_hours,
            &changed.token_days,
            &break_glass(changed),
            &changed.tried_at,
            &changed.enabled_at,
            &changed.required_at,
            &changed.revoke_before,
            &changed.revoke_existing,
            &changed.limit_from,
        ],
    )
    .await
    .map(drop)
}

/// Records that an owner signed in through a connection to try it.
pub async fn mark_tried(db: &Connection, id: ConnectionId, now: Timestamp) -> Result<(), Error> {
    let sql = r"update connections set tried_at = $3 where id = $1 and shard = $2 and deleted_at is null";
    db.execute(sql, &[&id.uuid(), &id.shard().number(), &now]).await.map(drop)
}

/// Marks a connection as deleted, and deletes its client secret; `false`: there is no such connection.
pub async fn mark_deleted(
    db: &Connection,
    workspace_id: WorkspaceId,
    id: ConnectionId,
    now: Timestamp,
) -> Result<bool, Error> {
    let changed = db
        .execute(
            r"update connections set deleted_at = $4, client_secret = null, revoke_before = null, limit_from = null
               where id = $1 and shard = $2 and workspace_id = $3 and deleted_at is null",
            &[&id.uuid(), &id.shard().number(), &workspace_id.uuid(), &now],
        )
        .await?;
    Ok(changed == 1)
}

/// Deletes up to `size` connections that were marked as deleted before `deleted_before`, with their issuers.
pub async fn delete_deleted(db: &Connection, deleted_before: Timestamp, size: i64) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */
          with gone as (
              delete from connections where id in
                  (select id from connections where deleted_at <= $1 limit $2 for update skip locked)
              returning issuer_id)
          delete from trusted_issuers where id in (select issuer_id from gone)",
        &[&deleted_before, &size],
    )
    .await
}

/// Applies the owner's choice again, because a domain has joined the connection. Nothing happens if it is not required.
pub async fn mark_joined(db: &Connection, id: ConnectionId, now: Timestamp) -> Result<(), Error> {
    let sql = r"update connections set limit_from = $3::timestamptz, revoke_before = case when revoke_existing then $3::timestamptz end
                 where id = $1 and shard = $2 and required_at is not null and deleted_at is null";
    db.execute(sql, &[&id.uuid(), &id.shard().number(), &now]).await.map(drop)
}

/// A required connection, whose users are being signed out or given a token limit.
pub struct RevokingConnection {
    pub id: ConnectionId,
    pub workspace_id: WorkspaceId,
    /// Credentials of users who signed in before this time, and not through the connection, are revoked. `None`: none are.
    pub before: Option<Timestamp>,
    /// When the days of users begin who never signed in through the connection. `None`: they have a limit already.
    pub limit_from: Option<Timestamp>,
}

/// Returns the connections whose users are being signed out or given a token limit.
pub async fn list_revoking(db: &Connection) -> Result<Vec<RevokingConnection>, Error> {
    let sql = r"/* housekeeping */ select id, workspace_id, revoke_before, limit_from from connections
                 where (revoke_before is not null or limit_from is not null) and deleted_at is null order by id limit 1000";
    let revoking = |row: &Row| {
        let (id, workspace_id): (Uuid, Uuid) = (row.try_get("id")?, row.try_get("workspace_id")?);
        let (before, limit_from) = (row.try_get("revoke_before")?, row.try_get("limit_from")?);
        Ok(RevokingConnection { id: id.into(), workspace_id: workspace_id.into(), before, limit_from })
    };
    db.query(sql, &[]).await?.iter().map(revoking).collect()
}

/// Records that this was done for all users of a connection. If more has been ordered since, it is to be done.
pub async fn mark_revoked(db: &Connection, done: &RevokingConnection) -> Result<(), Error> {
    let sql = r"update connections set revoke_before = null, limit_from = null
                 where id = $1 and shard = $2 and revoke_before is not distinct from $3
                   and limit_from is not distinct from $4";
    db.execute(sql, &[&done.id.uuid(), &done.id.shard().number(), &done.before, &done.limit_from]).await.map(drop)
}

fn break_glass(connection: &StoredConnection) -> Vec<Uuid> {
    connection.break_glass.iter().map(|id| id.uuid()).collect()
}

fn from_row(row: &Row) -> Result<StoredConnection, Error> {
    let auth_method = AuthMethod::parse(row.try_get("auth_method")?);
    let break_glass: Vec<Uuid> = row.try_get("break_glass")?;
    Ok(StoredConnection {
        id: row.try_get::<_, Uuid>("id")?.into(),
        workspace_id: row.try_get::<_, Uuid>("workspace_id")?.into(),
        issuer: trusted_issuers::from_row(row)?,
        health: ConnectionHealth {
            last_success_at: row.try_get("last_success_at")?,
            last_error: row.try_get("last_error")?,
            last_error_at: row.try_get("last_error_at")?,
        },
        name: row.try_get("name")?,
        client_id: row.try_get("client_id")?,
        auth_method: auth_method.ok_or_else(|| super::impossible("connections", "auth_method"))?,
        client_secret: row.try_get("client_secret")?,
        default_role: role_from_text(row.try_get("default_role")?)?,
        session_hours: row.try_get("session_hours")?,
        token_days: row.try_get("token_days")?,
        break_glass: break_glass.into_iter().map(UserId::from).collect(),
        created_by: row.try_get::<_, Uuid>("created_by")?.into(),
        created_at: row.try_get("created_at")?,
        tried_at: row.try_get("tried_at")?,
        enabled_at: row.try_get("enabled_at")?,
        required_at: row.try_get("required_at")?,
        revoke_existing: row.try_get("revoke_existing")?,
        revoke_before: row.try_get("revoke_before")?,
        limit_from: row.try_get("limit_from")?,
    })
}
