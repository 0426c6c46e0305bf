//! Table `deletions`: which contents were deleted from a space, for as long as the deletion can be repeated. Rows of
//! `deleted_contents` reference rows of this table and are deleted with them.

use service_api::shard::Shard;
use service_rules::Timestamp;
use uuid::Uuid;

use crate::database::{Connection, Error};

/// Identifies a content that exists or existed in a space.
#[derive(Clone, Copy, Debug)]
pub struct ContentKey {
    pub space_id: Uuid,
    pub kind: &'static str,
    pub id: Uuid,
}

impl ContentKey {
    fn shard(self) -> i16 {
        Shard::of_id(self.space_id).number()
    }
}

/// Records a deletion.
pub async fn insert(db: &Connection, content: ContentKey, now: Timestamp) -> Result<(), Error> {
    db.execute(
        r"insert into deletions (space_id, kind, id, shard, deleted_at) values ($1, $2, $3, $5, $4)
          on conflict do nothing",
        &[&content.space_id, &content.kind, &content.id, &now, &content.shard()],
    )
    .await
    .map(drop)
}

/// Whether a content was deleted. Writes the row unchanged, so that the commit confirms the deletion.
pub async fn touch(db: &Connection, content: ContentKey) -> Result<bool, Error> {
    let sql =
        r"update deletions set deleted_at = deleted_at where space_id = $1 and kind = $2 and id = $3 and shard = $4";
    Ok(db.execute(sql, &[&content.space_id, &content.kind, &content.id, &content.shard()]).await? == 1)
}

/// Returns when a content was deleted, and locks the row: other transactions that delete or restore the content wait
/// until this one ends.
pub async fn lock(db: &Connection, content: ContentKey) -> Result<Option<Timestamp>, Error> {
    let sql =
        r"select deleted_at from deletions where space_id = $1 and kind = $2 and id = $3 and shard = $4 for update";
    let row = db.query_opt(sql, &[&content.space_id, &content.kind, &content.id, &content.shard()]).await?;
    row.map(|row| Ok(row.try_get("deleted_at")?)).transpose()
}

/// Whether a content exists or was deleted. One statement reads both tables, because between two statements the content
/// may be deleted or restored.
pub async fn exists_or_existed(db: &Connection, content: ContentKey) -> Result<bool, Error> {
    let row = db
        .query_opt(
            r"select from contents where space_id = $1 and kind = $2 and id = $3 and shard = $4
              union all
              select from deletions where space_id = $1 and kind = $2 and id = $3 and shard = $4",
            &[&content.space_id, &content.kind, &content.id, &content.shard()],
        )
        .await?;
    Ok(row.is_some())
}

/// Deletes the row of a content that was restored.
pub async fn delete(db: &Connection, content: ContentKey) -> Result<(), Error> {
    let sql = r"delete from deletions where space_id = $1 and kind = $2 and id = $3 and shard = $4";
    db.execute(sql, &[&content.space_id, &content.kind, &content.id, &content.shard()]).await.map(drop)
}

/// Deletes up to `size` rows of a space.
pub async fn delete_some(db: &Connection, space_id: Uuid, size: i64) -> Result<u64, Error> {
    db.execute(
        r"delete from deletions where space_id = $1 and shard = $3 and (kind, id) in
              (select kind, id from deletions where space_id = $1 and shard = $3 limit $2)",
        &[&space_id, &size, &Shard::of_id(space_id).number()],
    )
    .await
}

/// Deletes up to `size` rows of contents that were deleted before this moment.
pub async fn delete_expired(db: &Connection, deleted_before: Timestamp, size: i64) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from deletions where (space_id, kind, id) in
              (select space_id, kind, id from deletions where deleted_at <= $1 limit $2 for update skip locked)",
        &[&deleted_before, &size],
    )
    .await
}
