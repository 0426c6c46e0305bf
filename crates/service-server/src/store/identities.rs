//! Table `identities`: users as the provider of a connection names them. A row is in the shard of the connection.

use service_api::ids::{ConnectionId, Id as _, UserId};
use service_rules::Timestamp;
use uuid::Uuid;

use crate::database::{Connection, Error};

/// A user as the provider of a connection names them.
pub struct Identity<'a> {
    pub connection_id: ConnectionId,
    pub subject: &'a str,
    /// The address that the provider sent last; empty if it sent none.
    pub email: &'a str,
}

/// Returns the user that an identity is linked with.
pub async fn find_user(db: &Connection, connection_id: ConnectionId, subject: &str) -> Result<Option<UserId>, Error> {
    let sql = r"select user_id from identities where connection_id = $1 and subject = $2 and shard = $3";
    let row = db.query_opt(sql, &[&connection_id.uuid(), &subject, &connection_id.shard().number()]).await?;
    row.map(|row| Ok(row.try_get::<_, Uuid>("user_id")?.into())).transpose()
}

/// Links an identity with a user; `false`: it is linked already.
pub async fn insert(db: &Connection, identity: &Identity<'_>, user_id: UserId, now: Timestamp) -> Result<bool, Error> {
    let inserted = db
        .execute(
            r"insert into identities (connection_id, subject, shard, user_id, email, created_at, signed_in_at)
              values ($1, $2, $3, $4, $5, $6, $6)
              on conflict (connection_id, subject, shard) do nothing",
            &[
                &identity.connection_id.uuid(),
                &identity.subject,
                &identity.connection_id.shard().number(),
                &user_id.uuid(),
                &identity.email,
                &now,
            ],
        )
        .await?;
    Ok(inserted == 1)
}

/// Deletes every other identity of a user, of this and of other connections. Returns how many there were.
pub async fn delete_others(db: &Connection, identity: &Identity<'_>, user_id: UserId) -> Result<u64, Error> {
    let sql = r"/* every shard */ delete from identities
                 where user_id = $1 and (connection_id, subject) is distinct from ($2, $3)";
    db.execute(sql, &[&user_id.uuid(), &identity.connection_id.uuid(), &identity.subject]).await
}

/// Records that a linked identity signed in, and the address that its provider sent.
pub async fn mark_signed_in(db: &Connection, identity: &Identity<'_>, now: Timestamp) -> Result<(), Error> {
    let sql = r"update identities set signed_in_at = $4, email = case when $5 = '' then email else $5 end
                 where connection_id = $1 and subject = $2 and shard = $3";
    let shard = identity.connection_id.shard().number();
    db.execute(sql, &[&identity.connection_id.uuid(), &identity.subject, &shard, &now, &identity.email]).await.map(drop)
}

/// Deletes the identities of a connection.
pub async fn delete_by_connection(db: &Connection, connection_id: ConnectionId) -> Result<u64, Error> {
    let sql = r"delete from identities where connection_id = $1 and shard = $2";
    db.execute(sql, &[&connection_id.uuid(), &connection_id.shard().number()]).await
}
