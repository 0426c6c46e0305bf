//! Table `outbox`: mail to be sent, sealed.

use service_api::ids::{Id as _, MailId};
use service_rules::Timestamp;
use uuid::Uuid;

use crate::database::{Connection, Error};

pub struct Claimed {
    pub id: MailId,
    pub sealed: Vec<u8>,
    pub attempts: i16,
}

pub async fn insert(
    db: &Connection,
    id: MailId,
    sealed: &[u8],
    now: Timestamp,
    drop_at: Timestamp,
) -> Result<(), Error> {
    db.execute(
        r"insert into outbox (id, sealed, attempts, next_attempt_at, drop_at) values ($1, $2, 0, $3, $4)",
        &[&id.uuid(), &sealed, &now, &drop_at],
    )
    .await
    .map(drop)
}

/// Takes mails that are due; nobody else takes them before `retry_at`, which is also when they are tried again.
pub async fn claim(db: &Connection, batch: super::Batch, retry_at: Timestamp) -> Result<Vec<Claimed>, Error> {
    let rows = db
        .query(
            r"update outbox set attempts = attempts + 1, next_attempt_at = $3
               where id in (select id from outbox where next_attempt_at <= $1 and drop_at > $1
                             order by next_attempt_at limit $2 for update skip locked)
              returning id, sealed, attempts",
            &[&batch.now, &batch.size, &retry_at],
        )
        .await?;
    rows.iter()
        .map(|row| {
            let id: Uuid = row.try_get("id")?;
            Ok(Claimed { id: id.into(), sealed: row.try_get("sealed")?, attempts: row.try_get("attempts")? })
        })
        .collect()
}

pub async fn mark_next_attempt(db: &Connection, id: MailId, at: Timestamp) -> Result<(), Error> {
    db.execute(r"update outbox set next_attempt_at = $2 where id = $1", &[&id.uuid(), &at]).await.map(drop)
}

pub async fn delete(db: &Connection, id: MailId) -> Result<(), Error> {
    db.execute(r"delete from outbox where id = $1", &[&id.uuid()]).await.map(drop)
}

pub async fn delete_expired(db: &Connection, batch: super::Batch) -> Result<u64, Error> {
    db.execute(
        r"delete from outbox where id in
              (select id from outbox where drop_at <= $1 limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}
