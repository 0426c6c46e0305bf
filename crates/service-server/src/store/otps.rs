//! Table `otps`.

use service_api::ids::{Id as _, OtpId};
use service_rules::{Timestamp, email::Address, otp};

use crate::{
    database::{Connection, Error},
    vault::Mac,
};

/// Puts a new code in the place of whatever code the address had with this client.
pub async fn replace(db: &Connection, id: OtpId, otp: &NewOtp<'_>) -> Result<(), Error> {
    db.execute(
        r"insert into otps (address, client_id, id, mac_key, mac, attempts, created_at, expires_at)
          values ($1, $2, $3, $4, $5, 0, $6, $7)
          on conflict (address, client_id) do update
             set id = excluded.id, mac_key = excluded.mac_key, mac = excluded.mac, attempts = 0,
                 created_at = excluded.created_at, expires_at = excluded.expires_at, consumed_at = null",
        &[
            &otp.address.as_str(),
            &otp.client_id,
            &id.uuid(),
            &i16::from(otp.mac.key_id),
            &otp.mac.bytes.as_slice(),
            &otp.created_at,
            &otp.expires_at,
        ],
    )
    .await
    .map(drop)
}

/// Ends codes that would be live beside a new one: one without a client ends all, one with a client ends that without.
pub async fn delete_others(db: &Connection, address: &Address, client_id: &str) -> Result<(), Error> {
    db.execute(
        r"delete from otps where address = $1 and client_id <> $2 and ($2 = '' or client_id = '')",
        &[&address.as_str(), &client_id],
    )
    .await
    .map(drop)
}

pub struct NewOtp<'a> {
    pub address: &'a Address,
    /// Empty: any first-party client may redeem it.
    pub client_id: &'a str,
    pub mac: Mac,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// A code that may be tried, the try already counted.
pub struct CountedTry {
    pub address: String,
    /// The client the code was asked for; empty: any.
    pub client_id: String,
    /// Which try this is, counted from one.
    pub number: i16,
    pub mac_key: u8,
    pub mac: Vec<u8>,
}

/// Counts a try, if the code has any left and is live.
pub async fn count_try(
    db: &Connection,
    id: OtpId,
    client_id: &str,
    now: Timestamp,
) -> Result<Option<CountedTry>, Error> {
    let row = db
        .query_opt(
            r"update otps set attempts = attempts + 1
               where id = $1 and client_id in ('', $2) and attempts < $3 and consumed_at is null and expires_at > $4
              returning address, client_id, attempts, mac_key, mac",
            &[&id.uuid(), &client_id, &otp::TRIES, &now],
        )
        .await?;
    row.map(|row| {
        let mac_key =
            u8::try_from(row.try_get::<_, i16>("mac_key")?).map_err(|_| super::impossible("otps", "mac_key"))?;
        Ok(CountedTry {
            address: row.try_get("address")?,
            client_id: row.try_get("client_id")?,
            number: row.try_get("attempts")?,
            mac_key,
            mac: row.try_get("mac")?,
        })
    })
    .transpose()
}

/// Whether the code was live and is spent now, by this call and no other.
pub async fn mark_consumed(db: &Connection, id: OtpId, now: Timestamp) -> Result<bool, Error> {
    let changed = db
        .execute(
            r"update otps set consumed_at = $2 where id = $1 and consumed_at is null and expires_at > $2",
            &[&id.uuid(), &now],
        )
        .await?;
    Ok(changed == 1)
}

pub async fn delete_expired(db: &Connection, batch: super::Batch) -> Result<u64, Error> {
    db.execute(
        r"delete from otps where id in
              (select id from otps where expires_at <= $1 order by expires_at limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}
