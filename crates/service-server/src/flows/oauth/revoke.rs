//! Revokes a token (`POST /oauth/revoke`, RFC 7009).
//!
//! Either token of a pair revokes the whole session: revocations do not tell its access tokens apart, and a user who signs
//! out means all of it. A token that this service did not issue, or that is no longer valid, counts as revoked already.

use std::sync::Arc;

use serde_json::json;
use service_api::{
    audit_events::EventName,
    errors::Reason,
    oauth::AboutToken,
    token::{CliToken, PresentedToken},
};
use service_rules::{
    Timestamp,
    bearer::BearerError,
    clients::{self, ClientAuthError},
    rotation::{self, PresentedRefreshToken, RotationRefusal, RotationVerdict},
};

use crate::{
    app::App,
    database,
    flows::{
        RequestMeta, authenticate,
        clients::client_auth::{self, ClientProofError, PresentedClient},
        oauth::refresh_grant,
        revocation::{
            RevocationTransaction,
            replay::{self, Replay},
        },
    },
    store::{self, grants::StoredGrant},
    tokens::{refresh_token::UnverifiedToken, revocations::RevocationCheckError, verified_cache::VerifiedToken},
};

/// Why a token is not revoked.
#[derive(Debug, thiserror::Error)]
pub enum RevokeTokenError {
    #[error(transparent)]
    Client(#[from] ClientAuthError),
    #[error(transparent)]
    Proof(#[from] ClientProofError),
    #[error("{0} is missing")]
    MissingParameter(&'static str),
    #[error("the token was issued to another client")]
    OtherClient,
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

pub async fn revoke_token(
    app: &App,
    meta: &RequestMeta,
    client: &PresentedClient,
    about: &AboutToken,
) -> Result<(), RevokeTokenError> {
    let now = app.clock.now();
    let token = about.token.as_ref().ok_or(RevokeTokenError::MissingParameter("token"))?;
    let client_id = client.id.as_deref().ok_or(RevokeTokenError::MissingParameter("client_id"))?;
    let db = app.database.connect().await?;
    let found = store::clients::find(&db, client_id).await?;
    drop(db);
    let proof = client_auth::verify_proof(app, meta, found.as_ref(), client).await?;
    clients::authenticate(found.as_ref(), &proof)?;

    if let Some(token) = CliToken::parse(token.expose()) {
        return revoke_cli_token(app, meta, client_id, &token, now).await;
    }
    let Some(PresentedGrant { grant, generation }) = find_grant(app, token, now).await? else { return Ok(()) };
    if grant.client.id != client_id {
        return Err(RevokeTokenError::OtherClient);
    }
    if let Some(presented) = generation {
        let shown = PresentedRefreshToken {
            genuine: true,
            generation: presented,
            client_id: Some(client_id),
            address: meta.address,
        };
        // An old token is a replay here, as at the token endpoint.
        match rotation::judge(&shown, &authenticate::grant_facts(app, &grant)?, now) {
            RotationVerdict::Revoke(reason) => {
                if (Replay { grant: &grant, presented, reason }).revoke(app, meta, now).await? {
                    return Ok(());
                }
                // It was revoked meanwhile, perhaps for a reason that keeps what it created.
                let db = app.database.connect().await?;
                let revoked = store::grants::find(&db, grant.id).await?;
                drop(db);
                if let Some(revoked) = revoked {
                    replay::note_revoked(app, meta, &revoked, presented, now).await?;
                }
            }
            RotationVerdict::Refuse(RotationRefusal::Inactive(_)) => {
                replay::note_revoked(app, meta, &grant, presented, now).await?;
            }
            _ => {}
        }
    }
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    if transaction.revoke_grant(grant.id, Reason::RevokedByUser).await? {
        let mut event = meta.event(EventName::SessionEnded, now, json!({ "by": "its token" }))?;
        event.user_id = Some(grant.user_id);
        event.client_id = Some(&grant.client.id);
        event.workspace_id = grant.workspace_id;
        event.subject = Some(grant.id.to_string());
        store::audit_events::insert(transaction.db(), &event).await?;
    }
    Ok(transaction.commit().await?)
}

async fn revoke_cli_token(
    app: &App,
    meta: &RequestMeta,
    client_id: &str,
    token: &CliToken,
    now: Timestamp,
) -> Result<(), RevokeTokenError> {
    let Some(stored) = authenticate::find_genuine_cli_token(app, token, now).await? else { return Ok(()) };
    if stored.client_id != client_id {
        return Err(RevokeTokenError::OtherClient);
    }
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    if transaction.revoke_cli_token(stored.id, Reason::RevokedByUser).await? {
        let mut event = meta.event(EventName::CliTokenRevoked, now, json!({ "itself": true }))?;
        event.user_id = Some(stored.user_id);
        event.workspace_id = stored.found.workspace_id;
        event.subject = Some(stored.id.to_string());
        store::audit_events::insert(transaction.db(), &event).await?;
    }
    Ok(transaction.commit().await?)
}

/// The grant of a genuine token that a caller presents.
pub struct PresentedGrant {
    pub grant: StoredGrant,
    /// The generation, if the token is a refresh token.
    pub generation: Option<i32>,
}

/// Finds the grant of a genuine token: a refresh token, or an access token that has not expired.
pub async fn find_grant(app: &App, token: &PresentedToken, now: Timestamp) -> anyhow::Result<Option<PresentedGrant>> {
    if let Some(token) = UnverifiedToken::read_any(token) {
        let db = app.database.connect().await?;
        let Some(grant) = store::grants::find(&db, token.grant_id).await? else { return Ok(None) };
        let genuine = refresh_grant::is_genuine(app, &token, &grant, now)?;
        return Ok(genuine.then_some(PresentedGrant { grant, generation: Some(token.generation) }));
    }
    let Some(verified) = verify_unexpired(app, token.expose(), now).await? else { return Ok(None) };
    let db = app.database.connect().await?;
    let grant = store::grants::find(&db, verified.claims.grant).await?;
    let own = grant.filter(|grant| grant.user_id == verified.claims.sub);
    Ok(own.map(|grant| PresentedGrant { grant, generation: None }))
}

/// An access token that was signed by a key that is still trusted, and has not expired.
async fn verify_unexpired(app: &App, token: &str, now: Timestamp) -> anyhow::Result<Option<Arc<VerifiedToken>>> {
    let verified = match authenticate::verify_access_token(app, token).await {
        Ok(verified) => verified,
        Err(error) => {
            error.into_refusal()?;
            return Ok(None);
        }
    };
    let trusted = match app.revocations.judge(&verified.claims, &verified.key_id) {
        // A caller whose session was revoked may repeat the revocation.
        Ok(_) | Err(RevocationCheckError::Revoked(BearerError::Revoked(_))) => {
            app.signing_keys.accept(&verified.key_id, now)?
        }
        Err(RevocationCheckError::Revoked(_)) => false,
        Err(RevocationCheckError::Database(error)) => return Err(error.into()),
    };
    Ok((trusted && !verified.claims.has_expired(now)).then_some(verified))
}
