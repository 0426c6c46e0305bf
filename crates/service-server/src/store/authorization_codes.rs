//! Table `authorization_codes`. The table holds the SHA-256 of a code, never the code itself.

use service_api::{
    ids::{BrowserSessionId, GrantId, Id as _, UserId, WorkspaceId},
    scope::Scopes,
    shard::Shard,
    token::{AuthorizationCode, Token},
};
use service_rules::{Timestamp, codes::Code};
use uuid::Uuid;

use crate::{
    crypto::digest::token_digest,
    database::{Connection, Error},
};

/// What a code is found by: its SHA-256, and the shard that it carries.
pub struct CodeKey {
    pub digest: [u8; 32],
    pub shard: Shard,
}

impl CodeKey {
    #[must_use]
    pub fn of(code: &Token<AuthorizationCode>) -> Self {
        Self { digest: token_digest(code), shard: code.shard() }
    }
}

/// What a client gets for a code.
pub struct CodeAccess {
    pub user_id: UserId,
    pub browser_id: BrowserSessionId,
    pub scopes: Scopes,
    pub audience: String,
    pub workspace_id: Option<WorkspaceId>,
    /// The end date of the access. First-party clients have none.
    pub ends_at: Option<Timestamp>,
}

/// Stores a code.
pub async fn insert(db: &Connection, key: &CodeKey, code: &Code, worth: &CodeAccess) -> Result<(), Error> {
    db.execute(
        r"insert into authorization_codes (digest, client_id, user_id, browser_id, redirect_uri, challenge, scopes, audience,
                                           workspace_id, access_ends_at, expires_at, wrong_verifiers, shard)
          values ($1, $2, $3, $10, $4, $5, $6, $7, $8, $12, $9, 0, $11)",
        &[
            &key.digest.as_slice(),
            &code.client_id,
            &worth.user_id.uuid(),
            &code.redirect_uri,
            &code.challenge,
            &worth.scopes.to_string(),
            &worth.audience,
            &worth.workspace_id.map(WorkspaceId::uuid),
            &code.expires_at,
            &worth.browser_id.uuid(),
            &key.shard.number(),
            &worth.ends_at,
        ],
    )
    .await
    .map(drop)
}

/// A stored authorization code.
pub struct StoredAuthorizationCode {
    pub code: Code,
    pub worth: CodeAccess,
    /// The session that was opened with the code.
    pub grant_id: Option<GrantId>,
}

/// Returns a code and locks it: other transactions that redeem it wait until this one ends.
pub async fn lock(db: &Connection, key: &CodeKey) -> Result<Option<StoredAuthorizationCode>, Error> {
    let row = db
        .query_opt(
            r"select client_id, user_id, browser_id, redirect_uri, challenge, scopes, audience, workspace_id,
                     access_ends_at, expires_at, wrong_verifiers, grant_id
                from authorization_codes where digest = $1 and shard = $2 for update",
            &[&key.digest.as_slice(), &key.shard.number()],
        )
        .await?;
    let Some(row) = row else { return Ok(None) };
    let grant_id = row.try_get::<_, Option<Uuid>>("grant_id")?.map(GrantId::from);
    let code = Code {
        client_id: row.try_get("client_id")?,
        redirect_uri: row.try_get("redirect_uri")?,
        challenge: row.try_get("challenge")?,
        expires_at: row.try_get("expires_at")?,
        wrong_verifiers: row.try_get("wrong_verifiers")?,
        used: grant_id.is_some(),
    };
    let worth = CodeAccess {
        user_id: row.try_get::<_, Uuid>("user_id")?.into(),
        browser_id: row.try_get::<_, Uuid>("browser_id")?.into(),
        scopes: Scopes::parse(row.try_get("scopes")?),
        audience: row.try_get("audience")?,
        workspace_id: row.try_get::<_, Option<Uuid>>("workspace_id")?.map(Into::into),
        ends_at: row.try_get("access_ends_at")?,
    };
    Ok(Some(StoredAuthorizationCode { code, worth, grant_id }))
}

/// Marks a code as used; `false`: another request has used it.
pub async fn mark_used(db: &Connection, key: &CodeKey, grant_id: GrantId, now: Timestamp) -> Result<bool, Error> {
    let sql = r"update authorization_codes set used_at = $2, grant_id = $3
                 where digest = $1 and shard = $4 and used_at is null";
    Ok(db.execute(sql, &[&key.digest.as_slice(), &now, &grant_id.uuid(), &key.shard.number()]).await? == 1)
}

/// Counts a wrong PKCE verifier.
pub async fn count_wrong_verifier(db: &Connection, key: &CodeKey) -> Result<(), Error> {
    let sql = r"update authorization_codes set wrong_verifiers = wrong_verifiers + 1 where digest = $1 and shard = $2";
    db.execute(sql, &[&key.digest.as_slice(), &key.shard.number()]).await.map(drop)
}

/// Deletes up to `size` codes that expired before this moment.
pub async fn delete_expired(db: &Connection, expired_since: Timestamp, size: i64) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from authorization_codes where digest in
              (select digest from authorization_codes where expires_at <= $1 limit $2 for update skip locked)",
        &[&expired_since, &size],
    )
    .await
}
