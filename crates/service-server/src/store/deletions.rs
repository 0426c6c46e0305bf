//! Table `deletions`: what was deleted from which space, for as long as somebody may ask again.

use service_rules::Timestamp;
use uuid::Uuid;

use crate::database::{Connection, Error};

/// Something that is, or was, in a space.
#[derive(Clone, Copy, Debug)]
pub struct Thing {
    pub space_id: Uuid,
    pub kind: &'static str,
    pub id: Uuid,
}

pub async fn insert(db: &Connection, thing: Thing, now: Timestamp) -> Result<(), Error> {
    db.execute(
        r"insert into deletions (space_id, kind, id, deleted_at) values ($1, $2, $3, $4) on conflict do nothing",
        &[&thing.space_id, &thing.kind, &thing.id, &now],
    )
    .await
    .map(drop)
}

/// Whether it was there once. Writes that as it is: what is confirmed of it is confirmed of the deletion.
pub async fn touch(db: &Connection, thing: Thing) -> Result<bool, Error> {
    let sql = r"update deletions set deleted_at = deleted_at where space_id = $1 and kind = $2 and id = $3";
    Ok(db.execute(sql, &[&thing.space_id, &thing.kind, &thing.id]).await? == 1)
}

pub async fn delete_expired(db: &Connection, deleted_before: Timestamp, size: i64) -> Result<u64, Error> {
    db.execute(
        r"delete from deletions where (space_id, kind, id) in
              (select space_id, kind, id from deletions where deleted_at <= $1 limit $2 for update skip locked)",
        &[&deleted_before, &size],
    )
    .await
}
