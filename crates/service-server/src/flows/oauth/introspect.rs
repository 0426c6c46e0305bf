//! Introspects a token (`POST /oauth/introspect`, RFC 7662).
//!
//! For services that cannot follow the revocations themselves. The response is read from the database each time, so it is
//! the same on every node. About an inactive token it says nothing, not even why.

use std::sync::Arc;

use service_api::{
    oauth::{AboutToken, IntrospectedKind, IntrospectedToken, Introspection},
    token::CliToken,
};
use service_rules::{
    Timestamp,
    clients::{self, ClientAuthError},
    lifetimes,
    rotation::{self, PresentedRefreshToken, RotationVerdict},
    signing::later,
};

use crate::{
    app::App,
    database,
    flows::{
        RequestMeta,
        authenticate::{self, AuthenticateError},
        clients::client_auth::{self, ClientProofError, PresentedClient},
        oauth::refresh_grant,
    },
    store,
    tokens::{refresh_token::UnverifiedToken, verified_cache::VerifiedToken},
};

/// Why a token is not introspected.
#[derive(Debug, thiserror::Error)]
pub enum IntrospectError {
    #[error(transparent)]
    Client(#[from] ClientAuthError),
    #[error(transparent)]
    Proof(#[from] ClientProofError),
    #[error("{0} is missing")]
    MissingParameter(&'static str),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

pub async fn introspect(
    app: &App,
    meta: &RequestMeta,
    client: &PresentedClient,
    about: &AboutToken,
) -> Result<Introspection, IntrospectError> {
    let now = app.clock.now();
    let db = app.database.connect().await?;
    let found = match &client.id {
        Some(id) => store::clients::find(&db, id).await?,
        None => None,
    };
    drop(db);
    let proof = client_auth::verify_proof(app, meta, found.as_ref(), client).await?;
    clients::judge_introspection(found.as_ref(), &proof)?;
    let token = about.token.as_ref().ok_or(IntrospectError::MissingParameter("token"))?;
    let token = match (UnverifiedToken::read_any(token), CliToken::parse(token.expose())) {
        (Some(token), _) => refresh_token(app, meta, &token, now).await?,
        (None, Some(token)) => cli_token(app, &token, now).await?,
        (None, None) => access_token(app, token.expose(), now).await?,
    };
    Ok(Introspection { active: token.is_some(), token })
}

/// `None` for a token that is not accepted. An error of the service itself is passed on.
fn active<T>(found: Result<T, AuthenticateError>) -> anyhow::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) => error.into_refusal().map(|_| None),
    }
}

async fn cli_token(app: &App, token: &CliToken, now: Timestamp) -> anyhow::Result<Option<IntrospectedToken>> {
    let Some(credential) = active(authenticate::look_up_cli_token(app, token, now).await)? else { return Ok(None) };
    Ok(Some(IntrospectedToken {
        token_type: IntrospectedKind::Bearer,
        scope: credential.scopes.to_string(),
        client_id: credential.client_id.clone(),
        sub: credential.user_id,
        aud: app.audience.clone(),
        iss: app.config.base_url.clone(),
        iat: credential.created_at.as_second(),
        exp: credential.expires_at.as_second(),
        jti: None,
        workspace_id: credential.space_access.workspace(),
    }))
}

/// An access token that is genuine, and that no known revocation concerns.
async fn find_unrevoked(app: &App, text: &str) -> Result<Arc<VerifiedToken>, AuthenticateError> {
    let verified = authenticate::verify_access_token(app, text).await?;
    app.revocations.judge(&verified.claims, &verified.key_id)?;
    Ok(verified)
}

async fn access_token(app: &App, text: &str, now: Timestamp) -> anyhow::Result<Option<IntrospectedToken>> {
    let Some(verified) = active(find_unrevoked(app, text).await)? else { return Ok(None) };
    let claims = &verified.claims;
    if claims.has_expired(now) || !app.signing_keys.accept(&verified.key_id, now)? {
        return Ok(None);
    }
    let Some(grant) = active(authenticate::find_live_grant(app, claims.grant, now).await)? else { return Ok(None) };
    Ok(Some(IntrospectedToken {
        token_type: IntrospectedKind::Bearer,
        scope: claims.scope.clone(),
        client_id: grant.client.id,
        sub: claims.sub,
        aud: claims.aud.clone(),
        iss: claims.iss.clone(),
        iat: claims.iat,
        exp: claims.exp,
        jti: Some(claims.jti),
        workspace_id: claims.workspace,
    }))
}

async fn refresh_token(
    app: &App,
    meta: &RequestMeta,
    token: &UnverifiedToken,
    now: Timestamp,
) -> anyhow::Result<Option<IntrospectedToken>> {
    let Some(grant) = active(authenticate::find_live_grant(app, token.grant_id, now).await)? else { return Ok(None) };
    let presented = PresentedRefreshToken {
        genuine: refresh_grant::is_genuine(app, token, &grant, now)?,
        generation: token.generation,
        client_id: Some(&grant.client.id),
        address: meta.address,
    };
    if matches!(rotation::judge(&presented, &grant.facts, now), RotationVerdict::Refuse(_) | RotationVerdict::Revoke(_))
    {
        return Ok(None);
    }
    let idle_at = later(grant.facts.rotated_at, lifetimes::REFRESH_IDLE);
    Ok(Some(IntrospectedToken {
        token_type: IntrospectedKind::RefreshToken,
        scope: grant.scopes.to_string(),
        client_id: grant.client.id,
        sub: grant.user_id,
        aud: grant.audience,
        iss: app.config.base_url.clone(),
        iat: grant.facts.rotated_at.as_second(),
        exp: grant.facts.expires_at.min(idle_at).as_second(),
        jti: None,
        workspace_id: grant.workspace_id,
    }))
}
