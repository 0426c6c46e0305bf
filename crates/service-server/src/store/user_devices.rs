//! Table `user_devices`: the devices of a user, in the shard of the user. See `devices.rs`.

use service_api::ids::{Id as _, UserId};

use crate::{
    crypto::digest::Digest,
    database::{Connection, Error},
    store::devices::KnownDevice,
};

/// Records that a user has a device.
pub(super) async fn replace(db: &Connection, device: &KnownDevice<'_>) -> Result<(), Error> {
    db.execute(
        r"insert into user_devices (user_id, digest, shard, expires_at) values ($1, $2, $3, $4)
          on conflict (user_id, digest, shard) do update set expires_at = excluded.expires_at",
        &[&device.user_id.uuid(), &device.digest, &device.user_id.shard().number(), &device.expires_at],
    )
    .await
    .map(drop)
}

/// Deletes the devices of a user except the `keep` that expire last; returns the digests of the deleted ones.
pub(super) async fn delete_excess(db: &Connection, user_id: UserId, keep: i64) -> Result<Vec<Vec<u8>>, Error> {
    let rows = db
        .query(
            r"delete from user_devices where user_id = $1 and shard = $3 and digest in
                  (select digest from user_devices where user_id = $1 and shard = $3
                    order by expires_at desc, digest offset $2)
              returning digest",
            &[&user_id.uuid(), &keep, &user_id.shard().number()],
        )
        .await?;
    rows.iter().map(|row| Ok(row.try_get("digest")?)).collect()
}

/// Deletes every device of a user but the one to `keep`; returns the digests of the deleted ones.
pub(super) async fn delete_by_user(
    db: &Connection,
    user_id: UserId,
    keep: Option<&Digest>,
) -> Result<Vec<Vec<u8>>, Error> {
    let sql = r"delete from user_devices where user_id = $1 and shard = $3 and digest is distinct from $2
                returning digest";
    let keep = keep.map(<[u8; 32]>::as_slice);
    let rows = db.query(sql, &[&user_id.uuid(), &keep, &user_id.shard().number()]).await?;
    rows.iter().map(|row| Ok(row.try_get("digest")?)).collect()
}

/// Deletes one device of a user.
pub(super) async fn delete(db: &Connection, user_id: UserId, digest: &[u8]) -> Result<(), Error> {
    let sql = r"delete from user_devices where user_id = $1 and digest = $2 and shard = $3";
    db.execute(sql, &[&user_id.uuid(), &digest, &user_id.shard().number()]).await.map(drop)
}

/// Deletes a batch of expired devices.
pub async fn delete_expired(db: &Connection, batch: super::Batch) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from user_devices where (user_id, digest) in
              (select user_id, digest from user_devices where expires_at <= $1 limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}
