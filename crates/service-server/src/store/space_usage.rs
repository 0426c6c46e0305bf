//! Table `space_usage`: the number of bytes in a space.
//!
//! A transaction that changes contents also changes this row. So transactions that write to the same space wait for
//! each other, and their counts are exact.

use service_api::shard::Shard;
use uuid::Uuid;

use crate::{
    database::{Connection, Error},
    store::contents::SpaceOwner,
};

/// Adds bytes to a space if it then holds at most `most`; `false`: it would hold more, and nothing is added.
pub async fn take(db: &Connection, space: SpaceOwner, bytes: i64, most: i64) -> Result<bool, Error> {
    let taken = db
        .execute(
            r"insert into space_usage as kept (space_id, shard, bytes) values ($1, $4, $2)
              on conflict (space_id, shard) do update set bytes = kept.bytes + excluded.bytes
               where kept.bytes + excluded.bytes <= $3",
            &[&space.id, &bytes, &most, &space.shard()],
        )
        .await?;
    Ok(taken == 1)
}

/// Subtracts bytes from a space.
pub async fn give_back(db: &Connection, space: SpaceOwner, bytes: i64) -> Result<(), Error> {
    let sql = r"update space_usage set bytes = greatest(bytes - $2, 0) where space_id = $1 and shard = $3";
    db.execute(sql, &[&space.id, &bytes, &space.shard()]).await.map(drop)
}

/// How often the limits on deleted contents of a space are checked.
#[derive(Clone, Copy, Debug)]
pub struct DeletedCheck {
    /// The bytes that a content counts as, at least.
    pub least: i64,
    /// The deleted bytes between two checks.
    pub between: i64,
}

/// Subtracts the bytes of a deleted content from a space. Returns `true` each time that `check.between` bytes were
/// deleted: the caller then checks the limits on deleted contents. A small content counts as `check.least` bytes.
pub async fn delete_content(
    db: &Connection,
    space: SpaceOwner,
    bytes: i64,
    check: DeletedCheck,
) -> Result<bool, Error> {
    let row = db
        .query_opt(
            r"update space_usage
                 set bytes = greatest(bytes - $2, 0),
                     deleted_bytes = case when deleted_bytes + $3 >= $4 then 0 else deleted_bytes + $3 end
               where space_id = $1 and shard = $5
              returning deleted_bytes = 0 as is_due",
            &[&space.id, &bytes, &bytes.max(check.least), &check.between, &space.shard()],
        )
        .await?;
    row.map_or(Ok(false), |row| Ok(row.try_get("is_due")?))
}

/// Deletes the row of a space that no longer exists. The transaction must have entered the space.
pub async fn delete(db: &Connection, space_id: Uuid) -> Result<(), Error> {
    let sql = r"delete from space_usage where space_id = $1 and shard = $2";
    db.execute(sql, &[&space_id, &Shard::of_id(space_id).number()]).await.map(drop)
}
