//! Table `recovery_codes`: the recovery codes of users. A row is in the shard of the user.

use serde::Serialize;
use service_api::{
    ids::{Id as _, RecoveryCodesId, UserId},
    instant,
};
use service_rules::Timestamp;
use uuid::Uuid;

use crate::{
    crypto::digest::Digest,
    database::{Connection, Error},
};

/// New codes of a user, by their digests.
pub struct NewRecoveryCodes<'a> {
    pub id: RecoveryCodesId,
    pub user_id: UserId,
    pub digests: &'a [Digest],
    pub made_by: &'a str,
    pub now: Timestamp,
}

/// What the user is shown about the codes.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryCodesLeft {
    pub count: i32,
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
}

/// Stores codes, in place of those that the user has.
pub async fn replace(db: &Connection, new: &NewRecoveryCodes<'_>) -> Result<(), Error> {
    let NewRecoveryCodes { id, user_id, digests, made_by, now } = *new;
    let digests: Vec<&[u8]> = digests.iter().map(Digest::as_slice).collect();
    db.execute(
        r"insert into recovery_codes (user_id, shard, id, digests, made_by, created_at) values ($1, $2, $3, $4, $5, $6)
          on conflict (user_id, shard) do update
             set id = excluded.id, digests = excluded.digests, made_by = excluded.made_by, created_at = excluded.created_at",
        &[&user_id.uuid(), &user_id.shard().number(), &id.uuid(), &digests, &made_by, &now],
    )
    .await
    .map(drop)
}

/// Returns how many codes a user has that were not used. `None`: none were created, or they were removed.
pub async fn find(db: &Connection, user_id: UserId) -> Result<Option<RecoveryCodesLeft>, Error> {
    let sql = r"select cardinality(digests) as count, created_at from recovery_codes where user_id = $1 and shard = $2";
    let row = db.query_opt(sql, &[&user_id.uuid(), &user_id.shard().number()]).await?;
    row.map(|row| Ok(RecoveryCodesLeft { count: row.try_get("count")?, created_at: row.try_get("created_at")? }))
        .transpose()
}

/// Uses a code; returns how many are left. `None`: the user has no such code. Of several requests with one code, one uses it.
pub async fn consume(db: &Connection, user_id: UserId, digest: &Digest) -> Result<Option<i32>, Error> {
    let sql = r"update recovery_codes set digests = array_remove(digests, $3)
                 where user_id = $1 and shard = $2 and $3 = any (digests)
             returning cardinality(digests) as count";
    let row = db.query_opt(sql, &[&user_id.uuid(), &user_id.shard().number(), &digest.as_slice()]).await?;
    row.map(|row| Ok(row.try_get("count")?)).transpose()
}

/// Deletes the codes of a user; returns their id. `None`: there were none.
pub async fn delete(db: &Connection, user_id: UserId) -> Result<Option<RecoveryCodesId>, Error> {
    let sql = r"delete from recovery_codes where user_id = $1 and shard = $2 returning id";
    let row = db.query_opt(sql, &[&user_id.uuid(), &user_id.shard().number()]).await?;
    row.map(|row| Ok(row.try_get::<_, Uuid>("id")?.into())).transpose()
}
