//! Table `grants`: the sessions of a user that began with a sign-in through a connection, and those that did not.

use std::collections::BTreeSet;

use service_api::ids::{BrowserSessionId, ConnectionId, GrantId, Id as _, UserId};
use service_rules::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::database::{Connection, Error};

/// Lets interactive sessions of a user that began with a connection be refreshed until a later time, because the user signed
/// in through the connection again.
pub async fn extend(
    db: &Connection,
    user_id: UserId,
    connection_id: ConnectionId,
    sso_until: Timestamp,
) -> Result<u64, Error> {
    let sql = r"update grants set sso_until = $3
                 where user_id = $1 and shard = $4 and connection_id = $2 and sso_until < $3 and revoked_at is null";
    db.execute(sql, &[&user_id.uuid(), &connection_id.uuid(), &sso_until, &user_id.shard().number()]).await
}

/// Lets interactive sessions of a user that began with a connection be refreshed until they expire.
pub async fn remove_deadlines(db: &Connection, user_id: UserId, connection_id: ConnectionId) -> Result<u64, Error> {
    let sql = r"update grants set sso_until = null
                 where user_id = $1 and shard = $3 and connection_id = $2 and sso_until is not null and revoked_at is null";
    db.execute(sql, &[&user_id.uuid(), &connection_id.uuid(), &user_id.shard().number()]).await
}

/// Returns the interactive sessions of a user that began with a connection and are not revoked.
pub async fn list_interactive(
    db: &Connection,
    user_id: UserId,
    connection_id: ConnectionId,
) -> Result<Vec<GrantId>, Error> {
    let sql = r"select id from grants
                 where user_id = $1 and shard = $3 and connection_id = $2 and sso_until is not null and revoked_at is null";
    let rows = db.query(sql, &[&user_id.uuid(), &connection_id.uuid(), &user_id.shard().number()]).await?;
    rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("id")?.into())).collect()
}

/// A grant or CLI token that exists when single sign-on becomes required.
pub struct ExistingCredential {
    pub id: Uuid,
    pub is_cli_token: bool,
    /// The session that created it.
    pub made_by: Option<String>,
}

/// Returns the grants and CLI tokens of a user that are valid, and that were created before a time, if there is one. Grants
/// that began with a sign-in through the connection are left out.
pub async fn list_existing(
    db: &Connection,
    user_id: UserId,
    connection_id: ConnectionId,
    before: Option<Timestamp>,
    now: Timestamp,
) -> Result<Vec<ExistingCredential>, Error> {
    let rows = db
        .query(
            r"select id, false as is_cli_token, made_by from grants
               where user_id = $1 and shard = $4 and connection_id is distinct from $2
                 and ($3::timestamptz is null or created_at < $3) and revoked_at is null and expires_at > $5
              union all
              select id, true, made_by from cli_tokens
               where user_id = $1 and shard = $4 and ($3::timestamptz is null or created_at < $3)
                 and revoked_at is null and expires_at > $5",
            &[&user_id.uuid(), &connection_id.uuid(), &before, &user_id.shard().number(), &now],
        )
        .await?;
    rows.iter()
        .map(|row| {
            let (id, is_cli_token) = (row.try_get("id")?, row.try_get("is_cli_token")?);
            Ok(ExistingCredential { id, is_cli_token, made_by: row.try_get("made_by")? })
        })
        .collect()
}

/// Returns the ids of sessions and browsers of a user that began with a sign-in through a connection, as `made_by` of what
/// they create records them.
pub async fn list_makers(
    db: &Connection,
    user_id: UserId,
    connection_id: ConnectionId,
) -> Result<BTreeSet<String>, Error> {
    let rows = db
        .query(
            r"select id, true as is_grant from grants where user_id = $1 and shard = $3 and connection_id = $2
              union all
              select id, false from browser_sessions where user_id = $1 and shard = $3 and connection_id = $2",
            &[&user_id.uuid(), &connection_id.uuid(), &user_id.shard().number()],
        )
        .await?;
    rows.iter().map(maker).collect()
}

/// Returns the ids of sessions and browsers of several users that began with a sign-in through a connection, as `made_by` of
/// what they create records them.
pub async fn list_makers_of_users(
    db: &Connection,
    users: &[UserId],
    connection_id: ConnectionId,
) -> Result<Vec<String>, Error> {
    let ids: Vec<_> = users.iter().map(|id| id.uuid()).collect();
    let shards: Vec<_> = users.iter().map(|id| id.shard().number()).collect();
    let rows = db
        .query(
            r"/* every shard */
              with people (user_id, shard) as materialized (select * from unnest($1::uuid[], $2::int2[]))
              select g.id, true as is_grant from people p join grants g on g.user_id = p.user_id and g.shard = p.shard
               where g.connection_id = $3
              union all
              select b.id, false from people p join browser_sessions b on b.user_id = p.user_id and b.shard = p.shard
               where b.connection_id = $3",
            &[&ids, &shards, &connection_id.uuid()],
        )
        .await?;
    rows.iter().map(maker).collect()
}

fn maker(row: &Row) -> Result<String, Error> {
    let id: Uuid = row.try_get("id")?;
    let is_grant = row.try_get("is_grant")?;
    Ok(if is_grant { GrantId::from(id).to_string() } else { BrowserSessionId::from(id).to_string() })
}
