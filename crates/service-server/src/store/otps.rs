//! Table `otps`: sign-in codes. The table holds the MAC of a code, never the code itself. A row is in the shard of its
//! address, which the id of the code carries.

use service_api::ids::{Id as _, OtpId};
use service_rules::{Timestamp, email::Address, otp};

use crate::{
    crypto::{digest::Digest, root_keys::Mac},
    database::{Connection, Error},
    store::emails::EmailKey,
};

/// Stores a code. A code of the same address, client and context is replaced.
pub async fn replace(db: &Connection, id: OtpId, otp: &NewOtp<'_>) -> Result<(), Error> {
    db.execute(
        r"insert into otps
              (address, client_id, context, id, device, mac_key, mac, attempts, created_at, expires_at, shard)
          values ($1, $2, $3, $4, $5, $6, $7, 0, $8, $9, $10)
          on conflict (address, client_id, context, shard) do update
             set id = excluded.id, device = excluded.device, mac_key = excluded.mac_key, mac = excluded.mac,
                 attempts = 0, created_at = excluded.created_at, expires_at = excluded.expires_at, consumed_at = null",
        &[
            &otp.address.as_str(),
            &otp.client_id,
            &otp.context.as_slice(),
            &id.uuid(),
            &otp.device.map(<[u8; 32]>::as_slice),
            &i16::from(otp.mac.key_id),
            &otp.mac.bytes.as_slice(),
            &otp.created_at,
            &otp.expires_at,
            &id.shard().number(),
        ],
    )
    .await
    .map(drop)
}

/// Deletes codes of the same context that must not be live beside a new one. A code without a client replaces all
/// others; a code with a client replaces the one without.
pub async fn delete_others(db: &Connection, id: OtpId, otp: &NewOtp<'_>) -> Result<(), Error> {
    db.execute(
        r"delete from otps
           where address = $1 and shard = $4 and context = $3 and client_id <> $2 and ($2 = '' or client_id = '')",
        &[&otp.address.as_str(), &otp.client_id, &otp.context.as_slice(), &id.shard().number()],
    )
    .await
    .map(drop)
}

/// A code to be stored.
pub struct NewOtp<'a> {
    pub address: &'a Address,
    /// Empty: any first-party client may redeem the code.
    pub client_id: &'a str,
    /// The digest of what requested the code: a device, a sign-in flow or a network.
    pub context: &'a Digest,
    /// The digest of the device's secret, if a known device requested the code.
    pub device: Option<&'a Digest>,
    pub mac: Mac,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// A live code whose attempt counter was increased.
pub struct CountedTry {
    pub address: Address,
    /// The client for which the code was requested; empty: any first-party client.
    pub client_id: String,
    /// The digest of the device's secret, if a known device requested the code.
    pub device: Option<Vec<u8>>,
    /// The number of this attempt, from 1.
    pub number: i16,
    pub mac_key: u8,
    pub mac: Vec<u8>,
}

/// Counts an attempt, if the code is live and has attempts left.
pub async fn count_try(
    db: &Connection,
    id: OtpId,
    client_id: &str,
    now: Timestamp,
) -> Result<Option<CountedTry>, Error> {
    let row = db
        .query_opt(
            r"update otps set attempts = attempts + 1
               where id = $1 and shard = $5 and client_id in ('', $2) and attempts < $3 and consumed_at is null
                 and expires_at > $4
              returning address, client_id, device, attempts, mac_key, mac",
            &[&id.uuid(), &client_id, &otp::MAX_OTP_ATTEMPTS, &now, &id.shard().number()],
        )
        .await?;
    row.map(|row| {
        let mac_key =
            u8::try_from(row.try_get::<_, i16>("mac_key")?).map_err(|_| super::impossible("otps", "mac_key"))?;
        let address = Address::parse(row.try_get("address")?).map_err(|_| super::impossible("otps", "address"))?;
        Ok(CountedTry {
            address,
            client_id: row.try_get("client_id")?,
            device: row.try_get("device")?,
            number: row.try_get("attempts")?,
            mac_key,
            mac: row.try_get("mac")?,
        })
    })
    .transpose()
}

/// Whether a code of this client can still be entered.
pub async fn is_live(db: &Connection, id: OtpId, client_id: &str, now: Timestamp) -> Result<bool, Error> {
    let sql = r"select 1 as live from otps
                 where id = $1 and shard = $5 and client_id = $2 and attempts < $3 and consumed_at is null
                   and expires_at > $4";
    let row = db.query_opt(sql, &[&id.uuid(), &client_id, &otp::MAX_OTP_ATTEMPTS, &now, &id.shard().number()]).await?;
    Ok(row.is_some())
}

/// Consumes a code; `false`: it was consumed before or has expired.
pub async fn mark_consumed(db: &Connection, id: OtpId, now: Timestamp) -> Result<bool, Error> {
    let changed = db
        .execute(
            r"update otps set consumed_at = $2
               where id = $1 and shard = $3 and consumed_at is null and expires_at > $2",
            &[&id.uuid(), &now, &id.shard().number()],
        )
        .await?;
    Ok(changed == 1)
}

/// Deletes every code of an address.
pub async fn delete_by_address(db: &Connection, email: EmailKey<'_>) -> Result<(), Error> {
    let sql = r"delete from otps where address = $1 and shard = $2";
    db.execute(sql, &[&email.address.as_str(), &email.shard.number()]).await.map(drop)
}

/// Deletes a batch of expired codes.
pub async fn delete_expired(db: &Connection, batch: super::Batch) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from otps where id in
              (select id from otps where expires_at <= $1 order by expires_at limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}
