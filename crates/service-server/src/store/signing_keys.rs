//! Table `signing_keys`.

use service_rules::{Timestamp, signing::Schedule};

use crate::database::{Connection, Error};

pub struct StoredKey {
    pub kid: String,
    pub sealed: Vec<u8>,
    pub jwk: serde_json::Value,
    pub created_at: Timestamp,
    pub schedule: Schedule,
}

/// Makes whoever else changes keys wait until this transaction ends.
pub async fn lock(db: &Connection) -> Result<(), Error> {
    db.execute(r"lock table signing_keys in share row exclusive mode", &[]).await.map(drop)
}

/// Every key, youngest first.
pub async fn list(db: &Connection) -> Result<Vec<StoredKey>, Error> {
    let rows = db
        .query(
            r"select kid, sealed, jwk, created_at, active_at, retired_at
                from signing_keys order by active_at desc, kid",
            &[],
        )
        .await?;
    rows.iter()
        .map(|row| {
            Ok(StoredKey {
                kid: row.try_get("kid")?,
                sealed: row.try_get("sealed")?,
                jwk: row.try_get("jwk")?,
                created_at: row.try_get("created_at")?,
                schedule: Schedule { active_at: row.try_get("active_at")?, retired_at: row.try_get("retired_at")? },
            })
        })
        .collect()
}

pub async fn insert(db: &Connection, key: &StoredKey) -> Result<(), Error> {
    db.execute(
        r"insert into signing_keys (kid, sealed, jwk, created_at, active_at) values ($1, $2, $3, $4, $5)",
        &[&key.kid, &key.sealed, &key.jwk, &key.created_at, &key.schedule.active_at],
    )
    .await
    .map(drop)
}

/// Lets every key that comes before `successor` retire at `at`; one that would only come after it never signs.
pub async fn mark_followed(db: &Connection, successor: &StoredKey, at: Timestamp, now: Timestamp) -> Result<(), Error> {
    db.execute(
        r"update signing_keys set retired_at = case when active_at >= $2 then $4::timestamptz else $3 end
           where kid <> $1 and retired_at is null",
        &[&successor.kid, &successor.schedule.active_at, &at, &now],
    )
    .await
    .map(drop)
}

/// Retires a key now; `false`: there is no such key, or it is retired already.
pub async fn mark_retired(db: &Connection, kid: &str, now: Timestamp) -> Result<bool, Error> {
    let changed = db
        .execute(
            r"update signing_keys set retired_at = $2 where kid = $1 and (retired_at is null or retired_at > $2)",
            &[&kid, &now],
        )
        .await?;
    Ok(changed == 1)
}

/// Forgets keys that were retired a month ago, with whatever root key sealed them.
pub async fn delete_expired(db: &Connection, batch: super::Batch) -> Result<u64, Error> {
    db.execute(
        r"delete from signing_keys where kid in
              (select kid from signing_keys where retired_at <= $1::timestamptz - interval '30 days' limit $2
                  for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}
