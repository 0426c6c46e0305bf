//! Table `account_deletions`: accounts that will be erased. A row is in the shard of the user.

use service_api::{
    ids::{Id as _, UserId},
    shard::Shard,
    token::{KeepAccount, Token},
};
use service_rules::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::{
    crypto::digest::{Digest, token_digest},
    database::{Connection, Error},
    store::Batch,
};

/// What a row is found by, from the secret in a link.
pub struct KeepKey {
    digest: Digest,
    shard: Shard,
}

impl KeepKey {
    #[must_use]
    pub fn of(secret: &Token<KeepAccount>) -> Self {
        Self { digest: token_digest(secret), shard: secret.shard() }
    }
}

/// An erasure to store.
pub struct NewAccountDeletion {
    pub user_id: UserId,
    pub id: Uuid,
    /// The key of the link that stops it, and the root key that its secret is derived under. `None`: an operator requested it.
    pub link: Option<(KeepKey, u8)>,
    /// The session or the browser that requested it.
    pub session_id: Option<String>,
    pub requested_at: Timestamp,
    pub due_at: Timestamp,
}

/// An erasure that was requested.
#[derive(Clone, Copy, Debug)]
pub struct StoredAccountDeletion {
    pub id: Uuid,
    /// The root key that the secret of the link is derived under. `None`: an operator requested the erasure.
    pub mac_key: Option<u8>,
    pub due_at: Timestamp,
    pub begun_at: Option<Timestamp>,
}

/// Stores an erasure. One that the user requested gives way to that of an operator. `false`: another one stays.
pub async fn insert(db: &Connection, new: &NewAccountDeletion) -> Result<bool, Error> {
    let digest = new.link.as_ref().map(|(key, _)| key.digest.as_slice());
    let mac_key = new.link.as_ref().map(|(_, key_id)| i16::from(*key_id));
    let inserted = db
        .execute(
            r"insert into account_deletions (user_id, shard, id, digest, mac_key, session_id, requested_at, due_at)
              values ($1, $2, $3, $4, $5, $6, $7, $8)
              on conflict (user_id, shard) do update
                 set id = excluded.id, digest = null, mac_key = null, session_id = null,
                     requested_at = excluded.requested_at, due_at = excluded.due_at
               where excluded.digest is null and account_deletions.digest is not null and account_deletions.begun_at is null",
            &[
                &new.user_id.uuid(),
                &new.user_id.shard().number(),
                &new.id,
                &digest,
                &mac_key,
                &new.session_id,
                &new.requested_at,
                &new.due_at,
            ],
        )
        .await?;
    Ok(inserted == 1)
}

/// Returns the erasure of a user.
pub async fn find(db: &Connection, user_id: UserId) -> Result<Option<StoredAccountDeletion>, Error> {
    let sql = r"select id, mac_key, due_at, begun_at from account_deletions where user_id = $1 and shard = $2";
    let row = db.query_opt(sql, &[&user_id.uuid(), &user_id.shard().number()]).await?;
    row.as_ref().map(from_row).transpose()
}

/// Returns the user whose account a link keeps, and when the account is erased. `None`: the link was used, or it is too late.
pub async fn find_by_link(db: &Connection, key: &KeepKey) -> Result<Option<(UserId, Timestamp)>, Error> {
    let sql = r"select user_id, due_at from account_deletions where digest = $1 and shard = $2 and begun_at is null";
    let row = db.query_opt(sql, &[&key.digest.as_slice(), &key.shard.number()]).await?;
    row.map(|row| Ok((row.try_get::<_, Uuid>("user_id")?.into(), row.try_get("due_at")?))).transpose()
}

/// Stops an erasure by its link; `false`: the link was used, or it is too late.
pub async fn delete_by_link(db: &Connection, key: &KeepKey) -> Result<bool, Error> {
    let sql = r"delete from account_deletions where digest = $1 and shard = $2 and begun_at is null";
    Ok(db.execute(sql, &[&key.digest.as_slice(), &key.shard.number()]).await? == 1)
}

/// Gives an erasure another link; `false`: its link was used, or it is too late.
pub async fn replace_link(db: &Connection, old: &KeepKey, id: Uuid, new: &KeepKey, key_id: u8) -> Result<bool, Error> {
    let sql = r"update account_deletions set id = $3, digest = $4, mac_key = $5
                 where digest = $1 and shard = $2 and begun_at is null";
    let (digest, key_id) = (new.digest.as_slice(), i16::from(key_id));
    Ok(db.execute(sql, &[&old.digest.as_slice(), &old.shard.number(), &id, &digest, &key_id]).await? == 1)
}

/// Stops an erasure that has not begun; `false`: there is none.
pub async fn delete(db: &Connection, user_id: UserId) -> Result<bool, Error> {
    let sql = r"delete from account_deletions where user_id = $1 and shard = $2 and begun_at is null";
    Ok(db.execute(sql, &[&user_id.uuid(), &user_id.shard().number()]).await? == 1)
}

/// Stops an erasure that an operator requested and that has not begun; `false`: there is none.
pub async fn delete_of_operator(db: &Connection, user_id: UserId) -> Result<bool, Error> {
    let sql = r"delete from account_deletions
                 where user_id = $1 and shard = $2 and digest is null and begun_at is null";
    Ok(db.execute(sql, &[&user_id.uuid(), &user_id.shard().number()]).await? == 1)
}

/// Stops an erasure that one of these sessions requested and that has not begun; `false`: there is none.
pub async fn delete_of_sessions(db: &Connection, user_id: UserId, sessions: &[String]) -> Result<bool, Error> {
    let sql = r"delete from account_deletions
                 where user_id = $1 and shard = $2 and session_id = any ($3) and begun_at is null";
    Ok(db.execute(sql, &[&user_id.uuid(), &user_id.shard().number(), &sessions]).await? == 1)
}

/// Returns users whose erasure is due: first those that were not tried, then the longest untried.
pub async fn list_due(db: &Connection, batch: Batch) -> Result<Vec<UserId>, Error> {
    let sql = r"/* housekeeping */ select user_id from account_deletions where due_at <= $1
                 order by tried_at nulls first, due_at limit $2";
    let rows = db.query(sql, &[&batch.now, &batch.size]).await?;
    rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("user_id")?.into())).collect()
}

/// Locks an erasure that is due, so that one node at a time takes a step of it; `false`: another node is at it, it was stopped, or the
/// account is erased.
pub async fn lock_due(db: &Connection, user_id: UserId, now: Timestamp) -> Result<bool, Error> {
    let sql =
        r"select from account_deletions where user_id = $1 and shard = $2 and due_at <= $3 for update skip locked";
    Ok(db.query_opt(sql, &[&user_id.uuid(), &user_id.shard().number(), &now]).await?.is_some())
}

/// Records that erasing has begun, and is tried.
pub async fn mark_tried(db: &Connection, user_id: UserId, now: Timestamp) -> Result<(), Error> {
    let sql = r"update account_deletions set begun_at = coalesce(begun_at, $3), tried_at = $3
                 where user_id = $1 and shard = $2";
    db.execute(sql, &[&user_id.uuid(), &user_id.shard().number(), &now]).await.map(drop)
}

/// Counts the erasures that are due since before this moment.
pub async fn count_due_since(db: &Connection, before: Timestamp) -> Result<i64, Error> {
    let sql = r"/* housekeeping */ select count(*) as there from account_deletions where due_at <= $1";
    let row = db.query_opt(sql, &[&before]).await?;
    Ok(row.ok_or_else(|| super::impossible("account_deletions", "due_at"))?.try_get("there")?)
}

/// Moves all erasures that have not begun to this moment, unless they are later, in batches.
pub async fn postpone_all(db: &Connection, until: Timestamp) -> Result<(), Error> {
    const BATCH: i64 = 1_000;
    let sql = r"/* housekeeping */ update account_deletions set due_at = $1
                 where due_at < $1 and begun_at is null and user_id in
                       (select user_id from account_deletions where due_at < $1 and begun_at is null limit $2)";
    while db.execute(sql, &[&until, &BATCH]).await? > 0 {}
    Ok(())
}

/// Deletes the row of an account that is erased.
pub async fn delete_erased(db: &Connection, user_id: UserId) -> Result<(), Error> {
    let sql = r"delete from account_deletions where user_id = $1 and shard = $2 and begun_at is not null";
    db.execute(sql, &[&user_id.uuid(), &user_id.shard().number()]).await.map(drop)
}

fn from_row(row: &Row) -> Result<StoredAccountDeletion, Error> {
    let mac_key = row.try_get::<_, Option<i16>>("mac_key")?.map(u8::try_from).transpose();
    Ok(StoredAccountDeletion {
        id: row.try_get("id")?,
        mac_key: mac_key.map_err(|_| super::impossible("account_deletions", "mac_key"))?,
        due_at: row.try_get("due_at")?,
        begun_at: row.try_get("begun_at")?,
    })
}
