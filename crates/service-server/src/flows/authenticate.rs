//! Authenticates the caller by its bearer token.
//!
//! 1. A token that was seen before is cached by its digest: its signature is not checked again, and a CLI token is not
//!    looked up again for a few minutes.
//! 2. Any other token is parsed and verified, or looked up by its id, and cached.
//! 3. Whether the token authorizes *this* request *now* is decided every time: time, audience, scope, whether its key is
//!    still accepted and whether it was revoked are never cached.

use std::{net::IpAddr, sync::Arc};

use service_api::{
    errors::Reason,
    ids::{CliTokenId, ConnectionId, GrantId},
    oauth::is_first_party,
    token::{Cli, CliToken, TokenKind as _},
};
use service_rules::{
    Timestamp,
    bearer::{self, BearerError, Claims, UnverifiedJwt},
    cli_tokens,
    credential::{Credential, CredentialKind},
    revocation::RevocationStatus,
    rotation,
    space::{Space, SpaceAccess},
};
use subtle::ConstantTimeEq as _;

use crate::{
    app::App,
    crypto::digest::sha256,
    database::{self, Connection},
    store::{self, cli_tokens::StoredCliToken, grants::StoredGrant},
    tokens::{
        cli_token_cache::{CACHE_SECONDS, CachedCliToken},
        revocations::RevocationCheckError,
        verified_cache::VerifiedToken,
    },
};

/// Why a bearer token does not authenticate its caller.
#[derive(Debug, thiserror::Error)]
pub enum AuthenticateError {
    #[error(transparent)]
    Bearer(#[from] BearerError),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

impl AuthenticateError {
    /// Why the token is refused. An error of the service itself is passed on.
    pub fn into_refusal(self) -> anyhow::Result<BearerError> {
        match self {
            Self::Bearer(refusal) => Ok(refusal),
            Self::Database(error) => Err(error.into()),
            Self::Defect(error) => Err(error),
        }
    }
}

impl From<RevocationCheckError> for AuthenticateError {
    fn from(error: RevocationCheckError) -> Self {
        match error {
            RevocationCheckError::Revoked(refusal) => Self::Bearer(refusal),
            RevocationCheckError::Database(error) => Self::Database(error),
        }
    }
}

/// Authenticates a caller by an access token for the API or by a CLI token. Scopes are checked later.
pub async fn authenticate_bearer(app: &App, token: &str, from: IpAddr) -> Result<Arc<Credential>, AuthenticateError> {
    let now = app.clock.now();
    if token.starts_with(Cli::PREFIX) {
        let found = authenticate_cli_token(app, token, now).await?;
        app.cli_tokens.note_use(found.id, now, from);
        return Ok(found.credential);
    }
    let verified = verify_access_token(app, token).await?;
    judge_access_token(app, &verified, &app.audience, now).await?;
    Ok(verified.credential.clone())
}

/// Authenticates a caller by an access token for MCP. Scopes are checked later. A CLI token is for another resource.
pub async fn authenticate_mcp(app: &App, token: &str) -> Result<Arc<Credential>, AuthenticateError> {
    let now = app.clock.now();
    if token.starts_with(Cli::PREFIX) {
        // Only the holder of a genuine token learns that it is for another resource.
        authenticate_cli_token(app, token, now).await?;
        return Err(BearerError::WrongAudience.into());
    }
    let verified = verify_access_token(app, token).await?;
    judge_access_token(app, &verified, &app.mcp_audience, now).await?;
    Ok(verified.credential.clone())
}

/// Decides whether a verified access token is accepted for an audience now.
pub async fn judge_access_token(
    app: &App,
    verified: &VerifiedToken,
    audience: &str,
    now: Timestamp,
) -> Result<(), AuthenticateError> {
    let status = app.revocations.judge(&verified.claims, &verified.key_id)?;
    if !app.signing_keys.accept(&verified.key_id, now)? {
        return Err(BearerError::Invalid.into());
    }
    bearer::judge(&verified.claims, &app.config.base_url, audience, now)?;
    if status == RevocationStatus::LookUp {
        // Only a newer version can read the revocation. What it changed in the tables, this version can read.
        Box::pin(find_live_grant(app, verified.claims.grant, now)).await?;
    }
    Ok(())
}

/// Verifies the signature of an access token and reads its claims. The token may have expired or been revoked since.
pub async fn verify_access_token(app: &App, token: &str) -> Result<Arc<VerifiedToken>, AuthenticateError> {
    match app.verified_tokens.get(token) {
        Some(verified) => Ok(verified),
        // Here and below, what is rarely needed is boxed: it would make the futures of all requests larger.
        None => Box::pin(verify_uncached(app, token)).await,
    }
}

async fn verify_uncached(app: &App, token: &str) -> Result<Arc<VerifiedToken>, AuthenticateError> {
    let jwt = UnverifiedJwt::read(token)?;
    let genuine = app.signing_keys.verify(&jwt, &app.key_table()).await?;
    if !genuine {
        return Err(BearerError::Invalid.into());
    }
    let verified = Arc::new(read_claims(&jwt)?);
    app.verified_tokens.insert(token, verified.clone());
    Ok(verified)
}

/// Reads the claims of an access token that a retired key signed. `None`: no retired key did.
///
/// Such a token authorizes nothing. The refresh of MCP tokens uses it to learn the grant of a client that was idle for long.
pub fn verify_with_retired_key(app: &App, token: &str) -> Result<Option<VerifiedToken>, AuthenticateError> {
    let jwt = UnverifiedJwt::read(token)?;
    if app.signing_keys.is_signed_by_retired_key(&jwt)? { Ok(Some(read_claims(&jwt)?)) } else { Ok(None) }
}

fn read_claims(jwt: &UnverifiedJwt<'_>) -> Result<VerifiedToken, BearerError> {
    let claims = Claims::read(jwt.payload())?;
    let credential = Credential {
        kind: CredentialKind::Session(claims.grant),
        user_id: claims.sub,
        client_id: claims.client_id.clone(),
        scopes: claims.scopes(),
        space_access: space_access(&claims),
        created_at: Timestamp::from_second(claims.iat).map_err(|_| BearerError::Invalid)?,
        expires_at: Timestamp::from_second(claims.exp).map_err(|_| BearerError::Invalid)?,
    };
    Ok(VerifiedToken { claims, key_id: jwt.key_id().to_owned(), credential: Arc::new(credential) })
}

/// A first-party client has access to every space of its user. Any other has access to the space that the user chose.
fn space_access(claims: &Claims) -> SpaceAccess {
    if is_first_party(&claims.client_id) {
        SpaceAccess::Anywhere(claims.workspace)
    } else {
        SpaceAccess::Only(claims.workspace.map_or(Space::Personal, Space::Workspace))
    }
}

/// Authenticates a caller by a CLI token, without the cache.
pub async fn look_up_cli_token(
    app: &App,
    token: &CliToken,
    now: Timestamp,
) -> Result<Arc<Credential>, AuthenticateError> {
    Ok(look_up(app, token, now).await?.credential)
}

/// The row of a CLI token, if its secret is right. The token may have expired or been revoked since.
pub async fn find_genuine_cli_token(
    app: &App,
    token: &CliToken,
    now: Timestamp,
) -> anyhow::Result<Option<StoredCliToken>> {
    let Some(id) = token.id() else { return Ok(None) };
    let stored = app.cli_token_reads.find(id).await?;
    let Some(mut stored) = stored.filter(|stored| stored.digest.ct_eq(&sha256(token.expose())).into()) else {
        return Ok(None);
    };
    stored.found.sso_until = current_sso_deadline(app, stored.connection_id, stored.found.sso_until, now).await?;
    Ok(Some(stored))
}

/// The time from which a credential waits for its user to sign in through a connection. A deadline that has passed holds only
/// while the connection is enabled: no user can sign in through one that is disabled or deleted. Only then is it looked up.
pub async fn sso_deadline(
    db: &Connection,
    connection_id: Option<ConnectionId>,
    sso_until: Option<Timestamp>,
    now: Timestamp,
) -> Result<Option<Timestamp>, database::Error> {
    match (connection_id, sso_until) {
        (Some(id), Some(until)) if until <= now => Ok(store::connections::is_enabled(db, id).await?.then_some(until)),
        _ => Ok(sso_until),
    }
}

/// Returns the deadline that [`sso_deadline`] finds, on a connection of its own if one is needed.
pub async fn current_sso_deadline(
    app: &App,
    connection_id: Option<ConnectionId>,
    sso_until: Option<Timestamp>,
    now: Timestamp,
) -> Result<Option<Timestamp>, database::Error> {
    match sso_until {
        Some(until) if until <= now => {
            sso_deadline(&app.database.connect().await?, connection_id, sso_until, now).await
        }
        _ => Ok(sso_until),
    }
}

/// A CLI token that was accepted.
struct AcceptedCliToken {
    id: CliTokenId,
    credential: Arc<Credential>,
}

async fn authenticate_cli_token(app: &App, text: &str, now: Timestamp) -> Result<AcceptedCliToken, AuthenticateError> {
    // A wrong checksum costs no query.
    let token = CliToken::parse(text).ok_or(BearerError::Invalid)?;
    if let Some(known) = app.cli_tokens.get(&sha256(text)) {
        let workspace = known.credential.space_access.workspace();
        let unchanged =
            app.revocations.is_unchanged(known.id, known.credential.user_id, workspace, known.looked_up_at)?;
        // The cache counts monotonic time, which stops while a machine is suspended.
        let recent = (0..=CACHE_SECONDS).contains(&(now.as_second() - known.looked_up_at));
        let is_revoked = app.revocations.epoch()?.is_some_and(|epoch| known.credential.created_at < epoch);
        let waits_for_sso = known.sso_until.is_some_and(|until| until <= now);
        if unchanged && recent && !is_revoked && !waits_for_sso {
            if known.credential.expires_at <= now {
                return Err(BearerError::Revoked(Reason::Expired).into());
            }
            return Ok(AcceptedCliToken { id: known.id, credential: known.credential.clone() });
        }
    }
    Box::pin(look_up(app, &token, now)).await
}

/// Reads a CLI token from the database, and caches it.
async fn look_up(app: &App, token: &CliToken, now: Timestamp) -> Result<AcceptedCliToken, AuthenticateError> {
    let epoch = app.revocations.epoch()?;
    let stored = find_genuine_cli_token(app, token, now).await?.ok_or(BearerError::Invalid)?;
    let id = stored.id;
    let mut found = stored.found;
    if epoch.is_some_and(|epoch| found.created_at < epoch) {
        found.ended = found.ended.or(Some(Reason::RevokedByAdmin));
    }
    cli_tokens::judge(&found, now).map_err(|reason| match reason {
        Reason::SsoAgain => BearerError::SsoAgain(stored.connection_id),
        reason => BearerError::Revoked(reason),
    })?;
    let credential = Arc::new(Credential {
        kind: CredentialKind::CliToken(id),
        user_id: stored.user_id,
        client_id: stored.client_id,
        scopes: found.scopes,
        space_access: SpaceAccess::Only(found.workspace_id.map_or(Space::Personal, Space::Workspace)),
        created_at: found.created_at,
        expires_at: found.expires_at,
    });
    let (looked_up_at, sso_until) = (now.as_second(), found.sso_until);
    let cached = CachedCliToken { id, credential: credential.clone(), looked_up_at, sso_until };
    app.cli_tokens.insert(sha256(token.expose()), cached);
    Ok(AcceptedCliToken { id, credential })
}

/// Finds a grant that is valid: it was not revoked, and its user, client and workspace membership are valid too.
///
/// # Errors
/// [`BearerError::Invalid`] if the grant was deleted, else [`BearerError::Revoked`].
pub async fn find_live_grant(app: &App, id: GrantId, now: Timestamp) -> Result<StoredGrant, AuthenticateError> {
    let db = app.database.connect().await?;
    let mut grant = store::grants::find(&db, id).await?.ok_or(BearerError::Invalid)?;
    grant.facts.sso_until = sso_deadline(&db, grant.connection_id, grant.facts.sso_until, now).await?;
    grant.facts = grant_facts(app, &grant)?;
    let ended = if grant.facts.user_disabled {
        Some(Reason::UserDisabled)
    } else if grant.facts.workspace_left {
        Some(Reason::WorkspaceRemoved)
    } else if grant.client.disabled {
        Some(Reason::ClientDisabled)
    } else {
        grant.facts.ended
    };
    match ended {
        Some(reason) => Err(BearerError::Revoked(reason).into()),
        None => Ok(grant),
    }
}

/// The facts about a grant: its row, and whether all grants of its time were revoked.
pub fn grant_facts(app: &App, grant: &StoredGrant) -> Result<rotation::Grant, database::Error> {
    let mut facts = grant.facts.clone();
    let is_revoked = app.revocations.revoked_all_since(grant.created_at)?;
    facts.ended = facts.ended.or(is_revoked.then_some(Reason::RevokedByAdmin));
    Ok(facts)
}
