//! Table `signing_keys`: the keys that sign access tokens.

use service_rules::{Timestamp, signing::Schedule};

use crate::database::{Connection, Error};

/// A row of the table.
pub struct StoredSigningKey {
    pub kid: String,
    pub sealed: Vec<u8>,
    pub jwk: serde_json::Value,
    pub created_at: Timestamp,
    pub schedule: Schedule,
    /// Whether an operator retired the key. Then tokens that it signed are rejected everywhere.
    pub retired_by_hand: bool,
    /// Increases with every change of the row.
    pub version: i32,
    /// The root key under which the MAC was computed.
    pub mac_key: u8,
    /// The MAC over all other columns; see `tokens/signing_keys.rs`.
    pub mac: Vec<u8>,
}

/// Locks the table: other transactions that change keys wait until this one ends.
pub async fn lock(db: &Connection) -> Result<(), Error> {
    db.execute(r"lock table signing_keys in share row exclusive mode", &[]).await.map(drop)
}

/// Returns every key, newest first.
pub async fn list(db: &Connection) -> Result<Vec<StoredSigningKey>, Error> {
    let rows = db
        .query(
            r"select kid, sealed, jwk, created_at, active_at, retired_at, retired_by_hand, version, mac_key, mac
                from signing_keys order by active_at desc, kid",
            &[],
        )
        .await?;
    rows.iter()
        .map(|row| {
            Ok(StoredSigningKey {
                kid: row.try_get("kid")?,
                sealed: row.try_get("sealed")?,
                jwk: row.try_get("jwk")?,
                created_at: row.try_get("created_at")?,
                schedule: Schedule { active_at: row.try_get("active_at")?, retired_at: row.try_get("retired_at")? },
                retired_by_hand: row.try_get("retired_by_hand")?,
                version: row.try_get("version")?,
                mac_key: u8::try_from(row.try_get::<_, i16>("mac_key")?)
                    .map_err(|_| super::impossible("signing_keys", "mac_key"))?,
                mac: row.try_get("mac")?,
            })
        })
        .collect()
}

/// Stores a key.
pub async fn insert(db: &Connection, key: &StoredSigningKey) -> Result<(), Error> {
    db.execute(
        r"insert into signing_keys (kid, sealed, jwk, created_at, active_at, retired_at, retired_by_hand, version, mac_key, mac)
          values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        &[
            &key.kid,
            &key.sealed,
            &key.jwk,
            &key.created_at,
            &key.schedule.active_at,
            &key.schedule.retired_at,
            &key.retired_by_hand,
            &key.version,
            &i16::from(key.mac_key),
            &key.mac,
        ],
    )
    .await
    .map(drop)
}

/// Writes a key that was read at this version; `false`: it was changed meanwhile.
pub async fn update(db: &Connection, key: &StoredSigningKey, read_version: i32) -> Result<bool, Error> {
    let changed = db
        .execute(
            r"update signing_keys set sealed = $3, retired_at = $4, version = $5, mac_key = $6, mac = $7,
                                      retired_by_hand = $8
               where kid = $1 and version = $2",
            &[
                &key.kid,
                &read_version,
                &key.sealed,
                &key.schedule.retired_at,
                &key.version,
                &i16::from(key.mac_key),
                &key.mac,
                &key.retired_by_hand,
            ],
        )
        .await?;
    Ok(changed == 1)
}

/// Deletes up to `size` keys that were retired before this moment.
pub async fn delete_expired(db: &Connection, retired_before: Timestamp, size: i64) -> Result<u64, Error> {
    db.execute(
        r"delete from signing_keys where kid in
              (select kid from signing_keys where retired_at <= $1 limit $2 for update skip locked)",
        &[&retired_before, &size],
    )
    .await
}
