//! Table `logout_tokens`: the ids of logout tokens that were received. A row is in the shard of the connection.

use service_api::ids::{ConnectionId, Id as _};
use service_rules::Timestamp;

use crate::database::{Connection, Error};

/// Stores the id of a logout token; `false`: the connection's provider has sent it before.
pub async fn insert(
    db: &Connection,
    connection_id: ConnectionId,
    token_id: &str,
    expires_at: Timestamp,
) -> Result<bool, Error> {
    let sql = r"insert into logout_tokens (connection_id, jti, shard, expires_at) values ($1, $2, $3, $4)
                on conflict (connection_id, jti, shard) do nothing";
    let shard = connection_id.shard().number();
    Ok(db.execute(sql, &[&connection_id.uuid(), &token_id, &shard, &expires_at]).await? == 1)
}

/// Deletes a batch of ids whose tokens are too old to be accepted.
pub async fn delete_expired(db: &Connection, batch: super::Batch) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from logout_tokens where (connection_id, jti) in
              (select connection_id, jti from logout_tokens where expires_at <= $1 limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}
