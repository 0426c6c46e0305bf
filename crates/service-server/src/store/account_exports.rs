//! Table `account_exports`: exports of everything that is stored about a user, and how far their downloads are. A row is in the
//! shard of the user.

use service_api::ids::{ExportId, Id as _, UserId};
use service_rules::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::{
    database::{Connection, Error},
    store::Batch,
};

/// The export that a session finds.
#[derive(Clone, Copy, Debug)]
pub struct ExportKey<'a> {
    pub id: ExportId,
    pub user_id: UserId,
    /// The session or the browser that started it.
    pub session_id: &'a str,
}

/// An export as stored.
pub struct StoredExport {
    pub id: ExportId,
    pub session_id: String,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub downloads: i16,
    /// Until when a download that runs is known to run.
    pub stream_until: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub written: Written,
}

/// What a download has written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    pub files: i32,
    pub entries: i64,
    pub bytes: i64,
}

/// A download of an export.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    pub id: Uuid,
    pub until: Timestamp,
}

/// Stores an export that can be downloaded until `expires_at`.
pub async fn insert(db: &Connection, key: &ExportKey<'_>, now: Timestamp, expires_at: Timestamp) -> Result<(), Error> {
    db.execute(
        r"insert into account_exports (id, shard, user_id, session_id, created_at, expires_at, downloads, files, entries, bytes)
          values ($1, $2, $3, $4, $5, $6, 0, 0, 0, 0)",
        &[&key.id.uuid(), &key.user_id.shard().number(), &key.user_id.uuid(), &key.session_id, &now, &expires_at],
    )
    .await
    .map(drop)
}

/// Returns an export of a session that has not expired.
pub async fn find(db: &Connection, key: &ExportKey<'_>, now: Timestamp) -> Result<Option<StoredExport>, Error> {
    let sql = r"select id, session_id, created_at, expires_at, downloads, stream_until, finished_at, files, entries, bytes
                  from account_exports
                 where id = $1 and shard = $2 and user_id = $3 and session_id = $4 and expires_at > $5";
    let shard = key.user_id.shard().number();
    let row = db.query_opt(sql, &[&key.id.uuid(), &shard, &key.user_id.uuid(), &key.session_id, &now]).await?;
    row.as_ref().map(from_row).transpose()
}

/// Returns the exports of a user that have not expired, the latest first.
pub async fn list_by_user(db: &Connection, user_id: UserId, now: Timestamp) -> Result<Vec<StoredExport>, Error> {
    let sql = r"select id, session_id, created_at, expires_at, downloads, stream_until, finished_at, files, entries, bytes
                  from account_exports where user_id = $1 and shard = $2 and expires_at > $3 order by id desc";
    let rows = db.query(sql, &[&user_id.uuid(), &user_id.shard().number(), &now]).await?;
    rows.iter().map(from_row).collect()
}

/// Whether a download of this user runs. The caller holds the lock of the user.
pub async fn is_any_running(db: &Connection, user_id: UserId, now: Timestamp) -> Result<bool, Error> {
    let sql = r"select from account_exports where user_id = $1 and shard = $2 and stream_until > $3 limit 1";
    Ok(db.query_opt(sql, &[&user_id.uuid(), &user_id.shard().number(), &now]).await?.is_some())
}

/// Begins a download.
pub async fn begin_stream(db: &Connection, key: &ExportKey<'_>, stream: Stream) -> Result<(), Error> {
    db.execute(
        r"update account_exports
             set stream_id = $3, stream_until = $4, downloads = downloads + 1, finished_at = null, files = 0, entries = 0, bytes = 0
           where id = $1 and shard = $2",
        &[&key.id.uuid(), &key.user_id.shard().number(), &stream.id, &stream.until],
    )
    .await
    .map(drop)
}

/// Records how far a download is; `false`: its export was deleted, or the note has lapsed and another download of the user runs.
pub async fn renew_stream(
    db: &Connection,
    key: &ExportKey<'_>,
    stream: Stream,
    written: Written,
    now: Timestamp,
) -> Result<bool, Error> {
    let renewed = db
        .execute(
            r"update account_exports set stream_until = $4, files = $5, entries = $6, bytes = $7
               where id = $1 and shard = $2 and stream_id = $3
                 and (stream_until > $8
                      or not exists (select from account_exports other
                                      where other.user_id = $9 and other.shard = $2 and other.id <> $1
                                        and other.stream_until > $8))",
            &[
                &key.id.uuid(),
                &key.user_id.shard().number(),
                &stream.id,
                &stream.until,
                &written.files,
                &written.entries,
                &written.bytes,
                &now,
                &key.user_id.uuid(),
            ],
        )
        .await?;
    Ok(renewed == 1)
}

/// Ends a download. `finished_at`: when it was read to its end.
pub async fn end_stream(
    db: &Connection,
    key: &ExportKey<'_>,
    stream_id: Uuid,
    written: Written,
    finished_at: Option<Timestamp>,
) -> Result<(), Error> {
    db.execute(
        r"update account_exports
             set stream_id = null, stream_until = null, files = $4, entries = $5, bytes = $6, finished_at = $7
           where id = $1 and shard = $2 and stream_id = $3",
        &[
            &key.id.uuid(),
            &key.user_id.shard().number(),
            &stream_id,
            &written.files,
            &written.entries,
            &written.bytes,
            &finished_at,
        ],
    )
    .await
    .map(drop)
}

/// Deletes the exports of a user. Downloads that run stop.
pub async fn delete_by_user(db: &Connection, user_id: UserId) -> Result<(), Error> {
    let sql = r"delete from account_exports where user_id = $1 and shard = $2";
    db.execute(sql, &[&user_id.uuid(), &user_id.shard().number()]).await.map(drop)
}

/// Deletes a batch of expired exports.
pub async fn delete_expired(db: &Connection, batch: Batch) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from account_exports where (id, shard) in
              (select id, shard from account_exports
                where expires_at <= $1 and (stream_until is null or stream_until <= $1)
                order by expires_at limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}

fn from_row(row: &Row) -> Result<StoredExport, Error> {
    Ok(StoredExport {
        id: row.try_get::<_, Uuid>("id")?.into(),
        session_id: row.try_get("session_id")?,
        created_at: row.try_get("created_at")?,
        expires_at: row.try_get("expires_at")?,
        downloads: row.try_get("downloads")?,
        stream_until: row.try_get("stream_until")?,
        finished_at: row.try_get("finished_at")?,
        written: Written {
            files: row.try_get("files")?,
            entries: row.try_get("entries")?,
            bytes: row.try_get("bytes")?,
        },
    })
}
