//! Table `sign_in_reports`: sign-ins that users were mailed about, by the SHA-256 of the secret in the link of the mail. A row is in
//! the shard of the user.

use service_api::{
    ids::{Id as _, UserId},
    shard::Shard,
    token::{SignInReport, Token},
};
use service_rules::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::{
    crypto::digest::{Digest, token_digest},
    database::{Connection, Error},
    store::Batch,
};

/// What a row is found by.
pub struct ReportKey {
    digest: Digest,
    shard: Shard,
}

impl ReportKey {
    #[must_use]
    pub fn of(secret: &Token<SignInReport>) -> Self {
        Self { digest: token_digest(secret), shard: secret.shard() }
    }
}

/// A sign-in that its user can report.
pub struct ReportableSignIn {
    pub user_id: UserId,
    /// The id of the session or the browser that was signed in.
    pub session_id: String,
    /// The digest of the secret of the device that was stored with it.
    pub device: Option<Vec<u8>>,
    pub created_at: Timestamp,
}

/// Stores a sign-in that its user is mailed about.
pub async fn insert(
    db: &Connection,
    key: &ReportKey,
    sign_in: &ReportableSignIn,
    expires_at: Timestamp,
) -> Result<(), Error> {
    db.execute(
        r"insert into sign_in_reports (digest, shard, user_id, session_id, device, created_at, expires_at)
          values ($1, $2, $3, $4, $5, $6, $7)",
        &[
            &key.digest.as_slice(),
            &key.shard.number(),
            &sign_in.user_id.uuid(),
            &sign_in.session_id,
            &sign_in.device,
            &sign_in.created_at,
            &expires_at,
        ],
    )
    .await
    .map(drop)
}

/// Returns a sign-in that was not reported yet.
pub async fn find(db: &Connection, key: &ReportKey, now: Timestamp) -> Result<Option<ReportableSignIn>, Error> {
    let sql = r"select user_id, session_id, device, created_at from sign_in_reports
                 where digest = $1 and shard = $2 and expires_at > $3";
    let row = db.query_opt(sql, &[&key.digest.as_slice(), &key.shard.number(), &now]).await?;
    row.as_ref().map(from_row).transpose()
}

/// Deletes a sign-in, because its user reports it; `false`: another request did.
pub async fn delete(db: &Connection, key: &ReportKey) -> Result<bool, Error> {
    let sql = r"delete from sign_in_reports where digest = $1 and shard = $2";
    Ok(db.execute(sql, &[&key.digest.as_slice(), &key.shard.number()]).await? == 1)
}

/// Deletes every sign-in that a user could report.
pub async fn delete_by_user(db: &Connection, user_id: UserId) -> Result<(), Error> {
    let sql = r"delete from sign_in_reports where user_id = $1 and shard = $2";
    db.execute(sql, &[&user_id.uuid(), &user_id.shard().number()]).await.map(drop)
}

/// Deletes a batch of sign-ins whose links have expired.
pub async fn delete_expired(db: &Connection, batch: Batch) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from sign_in_reports where digest in
              (select digest from sign_in_reports where expires_at <= $1
                order by expires_at limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}

fn from_row(row: &Row) -> Result<ReportableSignIn, Error> {
    Ok(ReportableSignIn {
        user_id: row.try_get::<_, Uuid>("user_id")?.into(),
        session_id: row.try_get("session_id")?,
        device: row.try_get("device")?,
        created_at: row.try_get("created_at")?,
    })
}
