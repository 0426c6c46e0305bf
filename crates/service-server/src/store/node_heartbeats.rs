//! Table `node_heartbeats`: when the last heartbeat of each node was confirmed.

use service_rules::Timestamp;
use uuid::Uuid;

use crate::database::{Connection, Error};

/// Writes a node's heartbeat. The statement commits by itself, so success means that the commit was confirmed.
pub async fn replace(db: &Connection, node_id: Uuid, now: Timestamp) -> Result<(), Error> {
    db.execute(
        r"insert into node_heartbeats (node_id, beat_at) values ($1, $2)
          on conflict (node_id) do update set beat_at = excluded.beat_at",
        &[&node_id, &now],
    )
    .await
    .map(drop)
}

/// Deletes up to `size` nodes without a heartbeat since `silent_since`. The newest heartbeat stays: without any, a node whose
/// machine slept for a day would take the database for a restored backup.
pub async fn delete_silent(db: &Connection, silent_since: Timestamp, size: i64) -> Result<u64, Error> {
    db.execute(
        r"delete from node_heartbeats where node_id in
              (select node_id from node_heartbeats where beat_at <= $1
                  and beat_at < (select max(beat_at) from node_heartbeats) limit $2 for update skip locked)",
        &[&silent_since, &size],
    )
    .await
}
