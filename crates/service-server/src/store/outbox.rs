//! Table `outbox`: sealed mail that is to be sent.

use service_api::ids::{Id, MailId};
use service_rules::Timestamp;
use uuid::Uuid;

use crate::database::{Connection, Error};

/// A mail that this node is to send.
pub struct ClaimedMail {
    pub id: MailId,
    pub sealed: Vec<u8>,
    pub attempts: i16,
}

/// A mail that waits for its next attempt.
pub struct WaitingMail {
    pub id: MailId,
    pub sealed: Vec<u8>,
    pub attempts: i16,
    pub next_attempt_at: Timestamp,
    pub drop_at: Timestamp,
}

/// Stores a mail.
pub async fn insert(
    db: &Connection,
    id: MailId,
    sealed: &[u8],
    now: Timestamp,
    drop_at: Timestamp,
) -> Result<(), Error> {
    db.execute(
        r"insert into outbox (id, shard, sealed, attempts, next_attempt_at, drop_at) values ($1, $5, $2, 0, $3, $4)",
        &[&id.uuid(), &sealed, &now, &drop_at, &id.shard().number()],
    )
    .await
    .map(drop)
}

/// Claims mails that are due. Until `retry_at` no other node claims them; then they are tried again.
pub async fn claim(db: &Connection, batch: super::Batch, retry_at: Timestamp) -> Result<Vec<ClaimedMail>, Error> {
    let rows = db
        .query(
            r"/* housekeeping */
              update outbox set attempts = attempts + 1, next_attempt_at = $3
               where id in (select id from outbox where next_attempt_at <= $1 and drop_at > $1
                             order by next_attempt_at limit $2 for update skip locked)
              returning id, sealed, attempts",
            &[&batch.now, &batch.size, &retry_at],
        )
        .await?;
    rows.iter()
        .map(|row| {
            let id: Uuid = row.try_get("id")?;
            Ok(ClaimedMail { id: id.into(), sealed: row.try_get("sealed")?, attempts: row.try_get("attempts")? })
        })
        .collect()
}

/// Sets the time of the next attempt, unless another attempt has begun.
pub async fn mark_next_attempt(db: &Connection, mail: &ClaimedMail, at: Timestamp) -> Result<(), Error> {
    let sql = r"update outbox set next_attempt_at = $2 where id = $1 and shard = $3 and attempts = $4";
    db.execute(sql, &[&mail.id.uuid(), &at, &mail.id.shard().number(), &mail.attempts]).await.map(drop)
}

/// Returns mails that wait, the newest first, and older than `before` if that is given.
pub async fn list(
    db: &Connection,
    now: Timestamp,
    before: Option<MailId>,
    limit: i64,
) -> Result<Vec<WaitingMail>, Error> {
    let sql = r"/* housekeeping */ select id, sealed, attempts, next_attempt_at, drop_at from outbox
                 where drop_at > $1 and ($3::uuid is null or id < $3) order by id desc limit $2";
    let rows = db.query(sql, &[&now, &limit, &before.map(Id::uuid)]).await?;
    rows.iter()
        .map(|row| {
            Ok(WaitingMail {
                id: row.try_get::<_, Uuid>("id")?.into(),
                sealed: row.try_get("sealed")?,
                attempts: row.try_get("attempts")?,
                next_attempt_at: row.try_get("next_attempt_at")?,
                drop_at: row.try_get("drop_at")?,
            })
        })
        .collect()
}

/// Lets nodes send a mail at once; `false`: it does not wait.
pub async fn mark_due(db: &Connection, id: MailId, now: Timestamp) -> Result<bool, Error> {
    let sql = r"update outbox set next_attempt_at = $2 where id = $1 and shard = $3 and drop_at > $2";
    Ok(db.execute(sql, &[&id.uuid(), &now, &id.shard().number()]).await? == 1)
}

/// Lets nodes send every waiting mail at once. Returns how many there are.
pub async fn mark_all_due(db: &Connection, now: Timestamp) -> Result<u64, Error> {
    let sql = r"/* housekeeping */ update outbox set next_attempt_at = $1 where next_attempt_at > $1 and drop_at > $1";
    db.execute(sql, &[&now]).await
}

/// Deletes a mail that was sent or given up.
pub async fn delete(db: &Connection, id: MailId) -> Result<(), Error> {
    let sql = r"delete from outbox where id = $1 and shard = $2";
    db.execute(sql, &[&id.uuid(), &id.shard().number()]).await.map(drop)
}

/// Deletes a batch of mails that are too old to be sent.
pub async fn delete_expired(db: &Connection, batch: super::Batch) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from outbox where id in
              (select id from outbox where drop_at <= $1 limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}
