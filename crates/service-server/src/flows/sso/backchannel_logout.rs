//! A provider signs a user out (`POST /sso/backchannel-logout/{connectionId}`, OpenID Connect Back-Channel Logout 1.0).
//!
//! 1. Count the request against the caller's network.
//! 2. Verify the logout token with a key of the connection's issuer, and judge it.
//! 3. Revoke the user's browser sessions and interactive sessions that began with the connection. CLI tokens, MCP token
//!    pairs and other apps keep their access until `tokenDays` have passed without a sign-in.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    errors::Reason,
    ids::{ConnectionId, Id as _},
    token::PresentedToken,
};
use service_rules::{
    connections::is_entra,
    limits::Limited,
    logout_token::{self, ExpectedLogoutToken, LogoutToken, LogoutTokenError},
};
use uuid::Uuid;

use crate::{
    app::App,
    database,
    flows::{RequestMeta, rate_limit::NetworkLimit, revocation::RevocationTransaction},
    issuers::{error::IssuerError, token_endpoint::ProviderSecret},
    store::{self, connections::StoredConnection, trusted_issuers::SIGN_IN},
};

/// Why a logout token signs no user out.
#[derive(Debug, thiserror::Error)]
pub enum LogoutError {
    #[error("there is no such connection, or it was never tried")]
    UnknownConnection,
    #[error(transparent)]
    Issuer(#[from] IssuerError),
    #[error(transparent)]
    Token(#[from] LogoutTokenError),
    /// The token names a session of the provider only. The service knows users by their subject.
    #[error("the logout token names no subject")]
    NoSubject,
    #[error("the logout token was received before")]
    Replayed,
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// Signs the user out whom a logout token names.
pub async fn receive(
    app: &App,
    meta: &RequestMeta,
    connection_id: &str,
    token: &PresentedToken,
) -> Result<(), LogoutError> {
    let token = ProviderSecret::new(token.expose().to_owned());
    let received = sign_out(app, meta, connection_id, &token).await;
    app.metrics.sso_logged_out(match &received {
        Ok(()) => "signed_out",
        Err(LogoutError::Limited(_)) => "limited",
        Err(LogoutError::Database(_) | LogoutError::Defect(_)) => "failed",
        Err(_) => "refused",
    });
    received
}

async fn sign_out(
    app: &App,
    meta: &RequestMeta,
    connection_id: &str,
    token: &ProviderSecret,
) -> Result<(), LogoutError> {
    let now = app.clock.now();
    let db = app.database.connect().await?;
    let rates = app.config.limits.logouts_per_network;
    let limit = NetworkLimit { policy: "logouts-network", address: meta.address, rates };
    if let Some(limited) = limit.take(app, &db, now).await? {
        return Err(limited.into());
    }
    let id: ConnectionId = connection_id.parse().map_err(|_| LogoutError::UnknownConnection)?;
    let connection = store::connections::find(&db, id).await?.ok_or(LogoutError::UnknownConnection)?;
    // A connection that no owner has tried has signed no user in. Its provider is not asked because of a stranger's request.
    let client_id = connection.client_id.as_deref().filter(|_| connection.tried_at.is_some());
    let client_id = client_id.ok_or(LogoutError::UnknownConnection)?;
    drop(db);
    let verified = app.issuers.verify(&connection.issuer, SIGN_IN, token).await?;
    let expected = ExpectedLogoutToken { issuer: &connection.issuer.issuer, client_id, now };
    let token = logout_token::judge(verified.typ.as_deref(), &verified.claims, &expected)?;
    revoke_sessions(app, meta, &connection, &token).await
}

async fn revoke_sessions(
    app: &App,
    meta: &RequestMeta,
    connection: &StoredConnection,
    token: &LogoutToken,
) -> Result<(), LogoutError> {
    // Users of Entra are known by their object id, which a logout token does not have.
    let subject = token.subject.as_deref().filter(|_| !is_entra(&connection.issuer.issuer));
    let subject = subject.ok_or(LogoutError::NoSubject)?;
    let now = app.clock.now();
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    if !store::logout_tokens::insert(transaction.db(), connection.id, &token.token_id, token.forget_at).await? {
        return Err(LogoutError::Replayed);
    }
    let found = store::identities::find_user(transaction.db(), connection.id, subject).await?;
    let Some(user_id) = found else { return Ok(transaction.commit().await?) };
    // A sign-in at the same time commits before this lock is taken, or starts after this transaction.
    store::users::lock(transaction.db(), user_id).await?;
    let grants = store::connection_grants::list_interactive(transaction.db(), user_id, connection.id).await?;
    let ids: Vec<Uuid> = grants.iter().map(|id| id.uuid()).collect();
    transaction.revoke_grants(user_id, &ids, Reason::SsoSignedOut).await?;
    let browsers = store::browser_sessions::delete_by_connection(transaction.db(), user_id, connection.id).await?;
    let details = json!({
        "connectionId": connection.id, "reason": "logout_token", "sessions": ids.len(), "browsers": browsers.len(),
    });
    let event = meta.event(EventName::SsoLoggedOut, now, details)?.user(user_id).subject(connection.id);
    event.in_workspace(connection.workspace_id).without_address().insert(transaction.db()).await?;
    Ok(transaction.commit().await?)
}
