//! Table `grants`: the sessions that a user has with one client.

use service_api::{
    errors::Reason,
    ids::{GrantId, Id as _, UserId},
    scope::Scopes,
};
use service_rules::{
    Timestamp,
    clients::{Client, ClientKind},
};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::database::{Connection, Error};

/// A session of a client, as far as a consent decides about it.
pub struct ClientGrant {
    pub id: GrantId,
    pub scopes: Scopes,
    pub expires_at: Timestamp,
}

/// Returns the grants of a user to a client for a resource that are not revoked.
pub async fn list(
    db: &Connection,
    user_id: UserId,
    client_id: &str,
    audience: &str,
) -> Result<Vec<ClientGrant>, Error> {
    let sql = r"select id, scopes, expires_at from grants
                 where user_id = $1 and shard = $4 and client_id = $2 and audience = $3 and revoked_at is null";
    let rows = db.query(sql, &[&user_id.uuid(), &client_id, &audience, &user_id.shard().number()]).await?;
    let grant = |row: &Row| {
        Ok(ClientGrant {
            id: row.try_get::<_, Uuid>("id")?.into(),
            scopes: Scopes::parse(row.try_get("scopes")?),
            expires_at: row.try_get("expires_at")?,
        })
    };
    rows.iter().map(grant).collect()
}

/// Lets the grants of a user to a client for a resource expire at this moment, if they would expire later.
pub async fn shorten(
    db: &Connection,
    user_id: UserId,
    client_id: &str,
    audience: &str,
    expires_at: Timestamp,
) -> Result<(), Error> {
    let sql = r"update grants set expires_at = $5
                 where user_id = $1 and shard = $4 and client_id = $2 and audience = $3 and revoked_at is null
                   and expires_at > $5";
    let shard = user_id.shard().number();
    db.execute(sql, &[&user_id.uuid(), &client_id, &audience, &shard, &expires_at]).await.map(drop)
}

/// Whether a client has, or had lately, a session of this user. One that the user revoked does not count for an app of others:
/// when it comes back, the user is told.
pub async fn exists(db: &Connection, user_id: UserId, client: &Client) -> Result<bool, Error> {
    let sql = r"select from grants
                 where user_id = $1 and shard = $3 and client_id = $2 and ($4 or revoked_because is distinct from $5) limit 1";
    let (shard, is_first_party) = (user_id.shard().number(), client.kind == ClientKind::FirstParty);
    let revoked = Reason::RevokedByUser.as_str();
    Ok(db.query_opt(sql, &[&user_id.uuid(), &client.id, &shard, &is_first_party, &revoked]).await?.is_some())
}

/// Returns the grants of a user to a client that are not revoked.
pub async fn list_ids(db: &Connection, user_id: UserId, client_id: &str) -> Result<Vec<Uuid>, Error> {
    let sql = r"select id from grants where user_id = $1 and shard = $3 and client_id = $2 and revoked_at is null";
    let rows = db.query(sql, &[&user_id.uuid(), &client_id, &user_id.shard().number()]).await?;
    rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
}

/// Whether a client has a live session of this user.
pub async fn is_any_live(
    db: &Connection,
    user_id: UserId,
    client_id: &str,
    now: Timestamp,
    used_after: Timestamp,
) -> Result<bool, Error> {
    let sql = r"select from grants
                 where user_id = $1 and shard = $5 and client_id = $2 and revoked_at is null and expires_at > $3
                   and rotated_at > $4
                 limit 1";
    let shard = user_id.shard().number();
    Ok(db.query_opt(sql, &[&user_id.uuid(), &client_id, &now, &used_after, &shard]).await?.is_some())
}
