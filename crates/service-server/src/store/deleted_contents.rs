//! Table `deleted_contents`: deleted contents, until they are restored or their row in `deletions` is deleted.
//! Row-level security shows a transaction only the spaces that it has entered.

use service_api::{
    contents::{Content, Kind},
    ids::{Id as _, UserId},
};
use service_rules::Timestamp;
use uuid::Uuid;

use crate::{
    database::{Connection, Error},
    store::contents::{BoundedList, ListBounds, SpaceOwner, StoredContent, bounded, from_row},
};

/// Which user deleted a content, and when.
#[derive(Clone, Copy, Debug)]
pub struct Deletion {
    pub by: UserId,
    pub at: Timestamp,
}

/// A deleted content with its deletion.
pub struct StoredDeletedContent {
    pub content: Content,
    pub deletion: Deletion,
}

/// Moves a content from `contents` to this table. Its row in `deletions` must exist.
pub async fn insert_from_contents(
    db: &Connection,
    space: SpaceOwner,
    kind: Kind,
    id: Uuid,
    deletion: Deletion,
) -> Result<bool, Error> {
    let taken = db
        .execute(
            r"with gone as
                (delete from contents where space_id = $1 and kind = $2 and id = $3 and shard = $6
                 returning in_workspace, fields, version, created_by, created_at, updated_at)
              insert into deleted_contents
                  (space_id, kind, id, shard, in_workspace, fields, version, created_by, created_at, updated_at,
                   deleted_by, deleted_at)
              select $1, $2, $3, $6, gone.*, $4, $5 from gone",
            &[&space.id, &kind.prefix(), &id, &deletion.by.uuid(), &deletion.at, &space.shard()],
        )
        .await?;
    Ok(taken == 1)
}

/// Moves a content back to `contents` as a new version; `None`: it is not in this table.
pub async fn restore(
    db: &Connection,
    space: SpaceOwner,
    kind: Kind,
    id: Uuid,
    now: Timestamp,
) -> Result<Option<StoredContent>, Error> {
    let row = db
        .query_opt(
            r"with back as
                (delete from deleted_contents where space_id = $1 and kind = $2 and id = $3 and shard = $5
                 returning in_workspace, fields, version, created_by, created_at)
              insert into contents
                  (space_id, kind, id, shard, in_workspace, fields, version, created_by, created_at, updated_at)
              select $1, $2, $3, $5, in_workspace, fields, version + 1, created_by, created_at, $4 from back
              returning space_id, id, in_workspace, fields, version, created_at, updated_at, bytes",
            &[&space.id, &kind.prefix(), &id, &now, &space.shard()],
        )
        .await?;
    row.map(|row| from_row(&row, kind)).transpose()
}

/// Returns contents of a space that were deleted after `since`, oldest content first.
pub async fn list(
    db: &Connection,
    space: SpaceOwner,
    kind: Kind,
    bounds: ListBounds,
    since: Timestamp,
) -> Result<BoundedList<StoredDeletedContent>, Error> {
    let rows = db
        .query(
            r"select * from
                (select page.*, (sum(bytes) over (order by id))::bigint - bytes as bytes_before, count(*) over () as found
                   from (select space_id, id, in_workspace, fields, version, created_at, updated_at, deleted_by, deleted_at,
                                bytes
                           from deleted_contents
                          where space_id = $1 and kind = $2 and id > $3 and shard = $7 and deleted_at > $6
                          order by id limit $4) as page) as page
               where bytes_before < $5 order by id",
            &[
                &space.id,
                &kind.prefix(),
                &bounds.after.unwrap_or_default(),
                &bounds.limit,
                &bounds.bytes,
                &since,
                &space.shard(),
            ],
        )
        .await?;
    bounded(&rows, |row| {
        let by = row.try_get::<_, Uuid>("deleted_by")?.into();
        let deletion = Deletion { by, at: row.try_get("deleted_at")? };
        Ok(StoredDeletedContent { content: from_row(row, kind)?.content, deletion })
    })
}

/// Deletes for good what exceeds the limits on deleted contents of a kind and on their bytes. Contents that users had
/// created themselves go first, and of these the ones that had existed for the shortest time. So a member who creates
/// and deletes contents does not displace those of other members. Locked rows are skipped, because another transaction
/// is restoring them.
///
/// Each step is an array, which PostgreSQL fills once. Of joins it could choose one whose time grows with the square of
/// the rows, while it knows little about the table.
pub async fn delete_excess(db: &Connection, space: SpaceOwner, per_kind: i64, bytes: i64) -> Result<u64, Error> {
    db.execute(
        r"delete from deleted_contents where space_id = $1 and shard = $4 and id = any (array
              (select id from deleted_contents where space_id = $1 and shard = $4 and id = any (array
                  (select id from
                      (select id,
                              row_number() over (partition by kind order by own, age desc, id) as place,
                              (sum(bytes) over (order by own, age desc, id))::bigint as held
                         from (select id, kind, bytes, created_by = deleted_by as own, deleted_at - created_at as age
                                 from deleted_contents where space_id = $1 and shard = $4) as aged) as ranked
                    where place > $2 or held > $3))
                for update skip locked))",
        &[&space.id, &per_kind, &bytes, &space.shard()],
    )
    .await
}
