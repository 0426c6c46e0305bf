//! Table `grants`: the sessions of a user that began with a sign-in through a connection, and those that did not.

use service_api::ids::{ConnectionId, GrantId, Id as _, UserId};
use service_rules::Timestamp;
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

/// Lets no interactive session that began with a connection be refreshed for more than this many hours after its user signed
/// in.
pub async fn shorten(db: &Connection, connection_id: ConnectionId, session_hours: i16) -> Result<u64, Error> {
    db.execute(
        r"/* every shard */
          update grants g set sso_until = u.signed_in_at + make_interval(hours => $2)
            from user_connections u
           where u.connection_id = $1 and g.user_id = u.user_id and g.shard = u.shard and g.connection_id = $1
             and g.sso_until > u.signed_in_at + make_interval(hours => $2) and g.revoked_at is null",
        &[&connection_id.uuid(), &i32::from(session_hours)],
    )
    .await
}

/// A grant or CLI token that exists when single sign-on becomes required.
pub struct ExistingCredential {
    pub id: Uuid,
    pub is_cli_token: bool,
}

/// Returns the valid grants and CLI tokens of a user who did not authenticate through the connection, and who authenticated
/// before a time, if there is one. When they were created does not count: an old sign-in opens new sessions.
pub async fn list_existing(
    db: &Connection,
    user_id: UserId,
    connection_id: ConnectionId,
    before: Option<Timestamp>,
    now: Timestamp,
) -> Result<Vec<ExistingCredential>, Error> {
    let rows = db
        .query(
            r"select id, false as is_cli_token from grants
               where user_id = $1 and shard = $4 and connection_id is distinct from $2
                 and ($3::timestamptz is null or auth_time is null or auth_time < $3)
                 and revoked_at is null and expires_at > $5
              union all
              select id, true from cli_tokens
               where user_id = $1 and shard = $4 and connection_id is distinct from $2
                 and ($3::timestamptz is null or auth_time is null or auth_time < $3)
                 and revoked_at is null and expires_at > $5",
            &[&user_id.uuid(), &connection_id.uuid(), &before, &user_id.shard().number(), &now],
        )
        .await?;
    rows.iter()
        .map(|row| Ok(ExistingCredential { id: row.try_get("id")?, is_cli_token: row.try_get("is_cli_token")? }))
        .collect()
}
