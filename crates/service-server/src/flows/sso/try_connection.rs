//! An owner tries a connection with their own account at the provider, before it is enabled.
//!
//! The flow is that of a sign-in, up to the ID token. No user is signed in, and no identity is stored: the owner is shown
//! what the provider sent, and the connection is marked as tried.

use serde_json::json;
use service_api::{audit_events::EventName, ids::ConnectionId};
use service_rules::{
    email::Address,
    id_token::{EmailVerified, IdToken},
    space::Right,
    sso as rules,
};

use crate::{
    app::App,
    flows::{
        Actor, RequestMeta,
        oauth::authorize::{self, SignInPurpose},
        sign_in::browser_session::Browser,
        sso::{
            SsoError, find_usable,
            start::{self, HandOff},
        },
        workspaces::{WorkspaceError, access},
    },
    store::{self, connections::StoredConnection},
};

/// Why an owner cannot try a connection.
#[derive(Debug, thiserror::Error)]
pub enum TryConnectionError {
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error(transparent)]
    Sso(#[from] SsoError),
}

/// What a provider sent about an owner who tried the connection.
pub struct TriedConnection {
    pub workspace_id: String,
    pub connection_id: ConnectionId,
    /// What the company calls its sign-in.
    pub company: String,
    /// The email address as the provider sent it.
    pub email: Option<String>,
    pub verified: EmailVerified,
    /// The verified domains of the connection.
    pub domains: Vec<String>,
    pub would_sign_in: WouldSignIn,
}

/// Whether a colleague with such an address could sign in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WouldSignIn {
    Yes,
    NoAddress,
    Unverified,
    /// The address is in none of the connection's verified domains.
    ForeignDomain,
}

/// Sends an owner to the provider of a connection, to try it.
pub async fn begin(
    app: &App,
    meta: &RequestMeta,
    browser: &Browser,
    workspace_id: &str,
    connection_id: &str,
) -> Result<HandOff, TryConnectionError> {
    let actor = Actor::in_browser(browser, meta).ok_or(WorkspaceError::SessionRevoked)?;
    let db = app.database.connect().await.map_err(SsoError::from)?;
    let workspace_id = access::enter(app, &db, &actor, workspace_id, Right::Own).await?;
    let id: ConnectionId = connection_id.parse().map_err(|_| SsoError::NotAvailable)?;
    let connection = find_usable(&db, id, true).await?;
    drop(db);
    if connection.workspace_id != workspace_id {
        return Err(SsoError::NotAvailable.into());
    }
    let opened = authorize::open_flow(app, meta, browser, SignInPurpose::TryConnection(id)).await;
    let flow = opened.map_err(SsoError::from)?;
    Ok(start::hand_off(app, meta, browser, &flow).await?)
}

/// Marks a connection as tried, if the user of the browser is still one of its owners, and says what the provider sent.
pub(super) async fn finish(
    app: &App,
    meta: &RequestMeta,
    browser: &Browser,
    connection: &StoredConnection,
    token: &IdToken,
) -> Result<TriedConnection, SsoError> {
    let now = app.clock.now();
    let actor = Actor::in_browser(browser, meta).ok_or(SsoError::ForeignResponse)?;
    let workspace_id = connection.workspace_id.to_string();
    let db = app.database.begin().await?;
    match access::enter(app, &db, &actor, &workspace_id, Right::Own).await {
        Ok(_) => {}
        Err(WorkspaceError::Database(error)) => return Err(error.into()),
        Err(WorkspaceError::Defect(error)) => return Err(error.into()),
        Err(_) => return Err(SsoError::NotAvailable),
    }
    store::connections::mark_tried(&db, connection.id, now).await?;
    let event = actor.event(EventName::ConnectionTried, now, json!({}))?;
    event.in_workspace(connection.workspace_id).subject(connection.id).insert(&db).await?;
    let domains = store::workspace_domains::verified_domains_of(&db, connection.id, connection.workspace_id).await?;
    db.commit().await?;
    let address = token.email.as_deref().and_then(|email| Address::parse(email).ok());
    let would_sign_in = match (address, token.email_verified) {
        (None, _) => WouldSignIn::NoAddress,
        (Some(_), EmailVerified::Other) => WouldSignIn::Unverified,
        (Some(address), _) if !rules::covers(&domains, &address) => WouldSignIn::ForeignDomain,
        (Some(_), _) => WouldSignIn::Yes,
    };
    Ok(TriedConnection {
        workspace_id,
        connection_id: connection.id,
        company: connection.name.clone(),
        email: token.email.clone(),
        verified: token.email_verified,
        domains,
        would_sign_in,
    })
}
