//! Table `idempotency_keys`: idempotency keys of create requests, so that a retry creates nothing new. A key counts for one
//! user in one space.

use service_api::{
    ids::{Id as _, UserId},
    shard::Shard,
};
use service_rules::Timestamp;
use uuid::Uuid;

use crate::database::{Connection, Error};

/// What was requested with a key, and what the request created.
pub struct KeyedCreation {
    pub digest: Vec<u8>,
    pub space_id: Uuid,
    pub content_id: Uuid,
}

/// Takes a key; `None`: it was free. Another request with the same key waits until this transaction ends.
pub async fn take(
    db: &Connection,
    user_id: UserId,
    key: &str,
    made: &KeyedCreation,
    now: Timestamp,
) -> Result<Option<KeyedCreation>, Error> {
    let shard = Shard::of_id(made.space_id).number();
    let taken = db
        .execute(
            r"insert into idempotency_keys (user_id, key, digest, space_id, content_id, made_at, shard)
              values ($1, $2, $3, $4, $5, $6, $7) on conflict do nothing",
            &[&user_id.uuid(), &key, &made.digest, &made.space_id, &made.content_id, &now, &shard],
        )
        .await?;
    if taken == 1 {
        return Ok(None);
    }
    let row = db
        .query_opt(
            r"select digest, space_id, content_id from idempotency_keys
               where space_id = $3 and user_id = $1 and key = $2 and shard = $4",
            &[&user_id.uuid(), &key, &made.space_id, &shard],
        )
        .await?;
    let row = row.ok_or_else(|| Error::Unavailable("the key is being forgotten".into()))?;
    let made = KeyedCreation {
        digest: row.try_get("digest")?,
        space_id: row.try_get("space_id")?,
        content_id: row.try_get("content_id")?,
    };
    Ok(Some(made))
}

/// Deletes up to `size` keys that were taken before this moment.
pub async fn delete_expired(db: &Connection, made_before: Timestamp, size: i64) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from idempotency_keys where (space_id, user_id, key) in
              (select space_id, user_id, key from idempotency_keys where made_at <= $1 limit $2 for update skip locked)",
        &[&made_before, &size],
    )
    .await
}
