//! Table `passkey_credentials`: the passkey that a credential id belongs to. A row is in the shard of the digest. See
//! `passkeys.rs`.

use service_api::ids::{Id as _, PasskeyId, UserId};
use uuid::Uuid;

use crate::{
    crypto::digest::sha256,
    database::{Connection, Error},
    store::shard_of_key as shard,
};

/// Stores whose a credential id is; `false`: it is in use.
pub(super) async fn insert(
    db: &Connection,
    credential_id: &[u8],
    user_id: UserId,
    passkey_id: PasskeyId,
) -> Result<bool, Error> {
    let digest = sha256(credential_id);
    let inserted = db
        .execute(
            r"insert into passkey_credentials (digest, shard, user_id, passkey_id) values ($1, $2, $3, $4)
              on conflict (digest, shard) do nothing",
            &[&digest.as_slice(), &shard(&digest), &user_id.uuid(), &passkey_id.uuid()],
        )
        .await?;
    Ok(inserted == 1)
}

/// Returns whose passkey has a credential id.
pub async fn find(db: &Connection, credential_id: &[u8]) -> Result<Option<(UserId, PasskeyId)>, Error> {
    let digest = sha256(credential_id);
    let sql = r"select user_id, passkey_id from passkey_credentials where digest = $1 and shard = $2";
    let row = db.query_opt(sql, &[&digest.as_slice(), &shard(&digest)]).await?;
    row.map(|row| Ok((row.try_get::<_, Uuid>("user_id")?.into(), row.try_get::<_, Uuid>("passkey_id")?.into())))
        .transpose()
}

/// Deletes the row of a credential id.
pub(super) async fn delete(db: &Connection, credential_id: &[u8]) -> Result<(), Error> {
    let digest = sha256(credential_id);
    let sql = r"delete from passkey_credentials where digest = $1 and shard = $2";
    db.execute(sql, &[&digest.as_slice(), &shard(&digest)]).await.map(drop)
}
