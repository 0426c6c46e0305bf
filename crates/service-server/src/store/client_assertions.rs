//! Table `client_assertions`: client assertions (RFC 7523) that were used. Each is accepted once.

use service_rules::Timestamp;

use crate::database::{Connection, Error};

/// Records an assertion; `false`: it was used before.
pub async fn insert(db: &Connection, digest: &[u8; 32], expires_at: Timestamp) -> Result<bool, Error> {
    let sql = r"insert into client_assertions (digest, shard, expires_at) values ($1, $2, $3) on conflict do nothing";
    Ok(db.execute(sql, &[&digest.as_slice(), &super::shard_of_key(digest), &expires_at]).await? == 1)
}

/// Deletes a batch of expired assertions.
pub async fn delete_expired(db: &Connection, batch: super::Batch) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from client_assertions where digest in
              (select digest from client_assertions where expires_at <= $1 limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}
