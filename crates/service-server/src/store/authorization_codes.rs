//! Table `authorization_codes`. A code itself is not here, only its SHA-256.

use service_api::{
    ids::{BrowserSessionId, GrantId, Id as _, UserId, WorkspaceId},
    scope::Scopes,
};
use service_rules::{Timestamp, codes::Code};
use uuid::Uuid;

use crate::database::{Connection, Error};

/// What a code is exchanged for.
pub struct Worth {
    pub user_id: UserId,
    pub browser_id: BrowserSessionId,
    pub scopes: Scopes,
    pub audience: String,
    pub workspace_id: Option<WorkspaceId>,
}

pub async fn insert(db: &Connection, digest: &[u8; 32], code: &Code, worth: &Worth) -> Result<(), Error> {
    db.execute(
        r"insert into authorization_codes (digest, client_id, user_id, browser_id, redirect_uri, challenge, scopes, audience,
                                           workspace_id, expires_at, wrong_verifiers)
          values ($1, $2, $3, $10, $4, $5, $6, $7, $8, $9, 0)",
        &[
            &digest.as_slice(),
            &code.client_id,
            &worth.user_id.uuid(),
            &code.redirect_uri,
            &code.challenge,
            &worth.scopes.to_string(),
            &worth.audience,
            &worth.workspace_id.map(WorkspaceId::uuid),
            &code.expires_at,
            &worth.browser_id.uuid(),
        ],
    )
    .await
    .map(drop)
}

pub struct Stored {
    pub code: Code,
    pub worth: Worth,
    /// The session that it opened.
    pub grant_id: Option<GrantId>,
}

/// A code, which nobody else redeems before this transaction ends.
pub async fn lock(db: &Connection, digest: &[u8; 32]) -> Result<Option<Stored>, Error> {
    let row = db
        .query_opt(
            r"select client_id, user_id, browser_id, redirect_uri, challenge, scopes, audience, workspace_id, expires_at,
                     wrong_verifiers, grant_id
                from authorization_codes where digest = $1 for update",
            &[&digest.as_slice()],
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
    let worth = Worth {
        user_id: row.try_get::<_, Uuid>("user_id")?.into(),
        browser_id: row.try_get::<_, Uuid>("browser_id")?.into(),
        scopes: Scopes::parse(row.try_get("scopes")?),
        audience: row.try_get("audience")?,
        workspace_id: row.try_get::<_, Option<Uuid>>("workspace_id")?.map(Into::into),
    };
    Ok(Some(Stored { code, worth, grant_id }))
}

/// Spends a code; `false`: somebody else did.
pub async fn mark_used(db: &Connection, digest: &[u8; 32], grant_id: GrantId, now: Timestamp) -> Result<bool, Error> {
    let sql = r"update authorization_codes set used_at = $2, grant_id = $3 where digest = $1 and used_at is null";
    Ok(db.execute(sql, &[&digest.as_slice(), &now, &grant_id.uuid()]).await? == 1)
}

pub async fn count_wrong_verifier(db: &Connection, digest: &[u8; 32]) -> Result<(), Error> {
    let sql = r"update authorization_codes set wrong_verifiers = wrong_verifiers + 1 where digest = $1";
    db.execute(sql, &[&digest.as_slice()]).await.map(drop)
}

pub async fn delete_expired(db: &Connection, expired_since: Timestamp, size: i64) -> Result<u64, Error> {
    db.execute(
        r"delete from authorization_codes where digest in
              (select digest from authorization_codes where expires_at <= $1 limit $2 for update skip locked)",
        &[&expired_since, &size],
    )
    .await
}
