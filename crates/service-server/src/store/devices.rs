//! Table `devices`: devices on which a user signed in, by the SHA-256 of a secret that the device holds.
//!
//! A row is in the shard of the digest. `user_devices` lists the devices of a user in the shard of the user. Functions
//! that write here write there too.

use std::collections::BTreeMap;

use service_api::ids::{Id as _, UserId};
use service_rules::Timestamp;
use uuid::Uuid;

use crate::{
    crypto::digest::Digest,
    database::{Connection, Error},
    store::{shard_of_key as shard, user_devices},
};

/// A device and the email address that signed in there.
pub struct KnownDevice<'a> {
    pub digest: &'a [u8],
    pub address_mac: &'a Digest,
    pub user_id: UserId,
    pub now: Timestamp,
    pub expires_at: Timestamp,
}

/// Whether the secret belongs to a device on which this address signed in. The address is given by its HMACs, one for
/// each root key.
pub async fn is_known_for(
    db: &Connection,
    digest: &Digest,
    address_macs: &[&[u8]],
    now: Timestamp,
) -> Result<bool, Error> {
    let sql = r"select from devices where digest = $1 and shard = $4 and address_mac = any ($2) and expires_at > $3";
    Ok(db.query_opt(sql, &[&digest.as_slice(), &address_macs, &now, &shard(digest)]).await?.is_some())
}

/// Whether the secret belongs to any device.
pub async fn exists(db: &Connection, digest: &Digest, now: Timestamp) -> Result<bool, Error> {
    let sql = r"select from devices where digest = $1 and shard = $3 and expires_at > $2 limit 1";
    Ok(db.query_opt(sql, &[&digest.as_slice(), &now, &shard(digest)]).await?.is_some())
}

/// Stores a new device.
pub async fn insert(db: &Connection, device: &KnownDevice<'_>) -> Result<(), Error> {
    db.execute(
        r"insert into devices (digest, address_mac, shard, user_id, created_at, expires_at)
          values ($1, $2, $3, $4, $5, $6)",
        &[
            &device.digest,
            &device.address_mac.as_slice(),
            &shard(device.digest),
            &device.user_id.uuid(),
            &device.now,
            &device.expires_at,
        ],
    )
    .await?;
    user_devices::replace(db, device).await
}

/// Records that an address signed in on an existing device; `false`: there is no such device, and nothing is stored.
pub async fn renew(db: &Connection, device: &KnownDevice<'_>) -> Result<bool, Error> {
    let renewed = db
        .execute(
            r"insert into devices (digest, address_mac, shard, user_id, created_at, expires_at)
              select $1, $2, $3, $4, $5, $6
               where exists (select from devices where digest = $1 and shard = $3 and expires_at > $5)
              on conflict (digest, address_mac, shard) do update
                 set user_id = excluded.user_id, expires_at = excluded.expires_at",
            &[
                &device.digest,
                &device.address_mac.as_slice(),
                &shard(device.digest),
                &device.user_id.uuid(),
                &device.now,
                &device.expires_at,
            ],
        )
        .await?;
    if renewed == 1 {
        user_devices::replace(db, device).await?;
    }
    Ok(renewed == 1)
}

/// Deletes the devices of a user except the `keep` that expire last.
pub async fn delete_excess(db: &Connection, user_id: UserId, keep: i64) -> Result<(), Error> {
    let digests = user_devices::delete_excess(db, user_id, keep).await?;
    delete_rows(db, user_id, &digests).await
}

/// Deletes every device of a user but the one to `keep`.
pub async fn delete_by_user(db: &Connection, user_id: UserId, keep: Option<&Digest>) -> Result<(), Error> {
    let digests = user_devices::delete_by_user(db, user_id, keep).await?;
    delete_rows(db, user_id, &digests).await
}

/// Deletes a device of a user.
pub async fn delete_one(db: &Connection, user_id: UserId, digest: &[u8]) -> Result<(), Error> {
    user_devices::delete(db, user_id, digest).await?;
    delete_rows(db, user_id, &[digest.to_vec()]).await
}

/// Deletes what a user has on these devices, with one statement for each shard.
async fn delete_rows(db: &Connection, user_id: UserId, digests: &[Vec<u8>]) -> Result<(), Error> {
    let mut by_shard = BTreeMap::<_, Vec<&[u8]>>::new();
    for digest in digests {
        by_shard.entry(shard(digest)).or_default().push(digest);
    }
    let sql = r"delete from devices where digest = any ($1) and shard = $2 and user_id = $3";
    for (shard, digests) in by_shard {
        db.execute(sql, &[&digests, &shard, &user_id.uuid()]).await?;
    }
    Ok(())
}

/// Deletes a device by its secret; returns the users who signed in there.
pub async fn delete(db: &Connection, digest: &Digest) -> Result<Vec<UserId>, Error> {
    let sql = r"delete from devices where digest = $1 and shard = $2 returning user_id";
    let rows = db.query(sql, &[&digest.as_slice(), &shard(digest)]).await?;
    let mut users =
        rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("user_id")?.into())).collect::<Result<Vec<UserId>, Error>>()?;
    users.sort_unstable_by_key(|user| user.uuid());
    users.dedup();
    for user_id in &users {
        user_devices::delete(db, *user_id, digest).await?;
    }
    Ok(users)
}

/// Returns the users who signed in on a device.
pub async fn find_users(db: &Connection, digest: &Digest, now: Timestamp) -> Result<Vec<UserId>, Error> {
    let sql = r"select distinct user_id from devices
                 where digest = $1 and shard = $3 and expires_at > $2 order by user_id";
    let rows = db.query(sql, &[&digest.as_slice(), &now, &shard(digest)]).await?;
    rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("user_id")?.into())).collect()
}

/// Deletes a batch of expired devices.
pub async fn delete_expired(db: &Connection, batch: super::Batch) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from devices where (digest, address_mac) in
              (select digest, address_mac from devices where expires_at <= $1
                order by expires_at limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}
