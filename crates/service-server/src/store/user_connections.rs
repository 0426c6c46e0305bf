//! Table `user_connections`: the connection that a user signs in with. A row is in the shard of the user.

use service_api::ids::{ConnectionId, Id as _, UserId};
use service_rules::Timestamp;
use uuid::Uuid;

use crate::database::{Connection, Error};

/// A sign-in of a user through a connection.
pub struct UserConnection<'a> {
    pub user_id: UserId,
    pub connection_id: ConnectionId,
    pub subject: &'a str,
    pub signed_in_at: Timestamp,
    /// Until when the credentials of the user work.
    pub tokens_until: Timestamp,
}

/// Records the last sign-in of a user through a connection.
pub async fn replace(db: &Connection, sign_in: &UserConnection<'_>) -> Result<(), Error> {
    db.execute(
        r"insert into user_connections (user_id, shard, connection_id, subject, signed_in_at, tokens_until)
          values ($1, $2, $3, $4, $5, $6)
          on conflict (user_id, shard) do update
             set connection_id = excluded.connection_id, subject = excluded.subject,
                 signed_in_at = excluded.signed_in_at, tokens_until = excluded.tokens_until",
        &[
            &sign_in.user_id.uuid(),
            &sign_in.user_id.shard().number(),
            &sign_in.connection_id.uuid(),
            &sign_in.subject,
            &sign_in.signed_in_at,
            &sign_in.tokens_until,
        ],
    )
    .await
    .map(drop)
}

/// Limits the credentials of a user who has never signed in through a connection, in whose domain it is required. A row of
/// another connection is out of date, and is replaced.
pub async fn limit(
    db: &Connection,
    user_id: UserId,
    connection_id: ConnectionId,
    from: Timestamp,
    tokens_until: Timestamp,
) -> Result<(), Error> {
    db.execute(
        r"insert into user_connections (user_id, shard, connection_id, signed_in_at, tokens_until)
          values ($1, $2, $3, $4, $5)
          on conflict (user_id, shard) do update
             set connection_id = excluded.connection_id, subject = null,
                 signed_in_at = excluded.signed_in_at, tokens_until = excluded.tokens_until
           where user_connections.connection_id <> excluded.connection_id",
        &[&user_id.uuid(), &user_id.shard().number(), &connection_id.uuid(), &from, &tokens_until],
    )
    .await
    .map(drop)
}

/// Takes the limit from a user who has never signed in through a connection.
pub async fn delete_limit(db: &Connection, user_id: UserId, connection_id: ConnectionId) -> Result<(), Error> {
    let sql = r"delete from user_connections
                 where user_id = $1 and shard = $2 and connection_id = $3 and subject is null";
    db.execute(sql, &[&user_id.uuid(), &user_id.shard().number(), &connection_id.uuid()]).await.map(drop)
}

/// Takes the limit from all users who have never signed in through a connection, because it is no longer required.
pub async fn delete_limits(db: &Connection, connection_id: ConnectionId) -> Result<u64, Error> {
    let sql = r"/* every shard */ delete from user_connections where connection_id = $1 and subject is null";
    db.execute(sql, &[&connection_id.uuid()]).await
}

/// Computes again until when the credentials of a connection's users work.
pub async fn update_token_days(db: &Connection, connection_id: ConnectionId, token_days: i16) -> Result<u64, Error> {
    let sql = r"/* every shard */ update user_connections set tokens_until = signed_in_at + make_interval(days => $2::int4)
                 where connection_id = $1";
    db.execute(sql, &[&connection_id.uuid(), &i32::from(token_days)]).await
}

/// Deletes the sign-in of a user through any connection but one. Returns the connection that it was.
pub async fn delete_of_others(
    db: &Connection,
    user_id: UserId,
    connection_id: Option<ConnectionId>,
) -> Result<Option<ConnectionId>, Error> {
    let sql = r"delete from user_connections where user_id = $1 and shard = $2 and connection_id is distinct from $3
                returning connection_id";
    let connection_id = connection_id.map(ConnectionId::uuid);
    let row = db.query_opt(sql, &[&user_id.uuid(), &user_id.shard().number(), &connection_id]).await?;
    row.map(|row| Ok(row.try_get::<_, Uuid>("connection_id")?.into())).transpose()
}

/// Deletes what is known of a connection's users. Their credentials no longer depend on it.
pub async fn delete_by_connection(db: &Connection, connection_id: ConnectionId) -> Result<u64, Error> {
    let sql = r"/* every shard */ delete from user_connections where connection_id = $1";
    db.execute(sql, &[&connection_id.uuid()]).await
}
