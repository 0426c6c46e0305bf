//! Single sign-on: users of a verified domain sign in at their company's identity provider.
//!
//! | file | what happens |
//! |---|---|
//! | `connections.rs` | owners create, change and delete the connections of a workspace |
//! | `domains.rs` | owners claim domains and prove them |
//! | `domain_checks.rs` | verified domains are checked again every week |
//! | `pages.rs` | what owners see of both |
//! | `after_restore.rs` | what was taken away after a backup is taken away again |
//! | `routes.rs` | what follows from both: where the users of a domain sign in |
//! | `start.rs` | a browser is sent to the provider |
//! | `callback.rs` | it comes back, and its user is signed in, gets an account, or is asked for a code |
//! | `link.rs` | the owner of an existing account links it with the identity, by one code |
//! | `try_connection.rs` | an owner tries a connection, without being signed in by it |
//! | `required.rs` | codes are refused, except those of break-glass owners; existing sessions are revoked |
//! | `break_glass.rs` | who those owners are, and what their sign-ins leave behind |
//! | `backchannel_logout.rs` | a provider signs a user out |

pub mod after_restore;
pub mod backchannel_logout;
pub(in crate::flows) mod break_glass;
pub mod callback;
pub mod connection_error;
mod connection_fields;
pub mod connections;
pub mod domain_checks;
pub mod domains;
mod identity;
pub mod link;
pub mod pages;
pub mod provider;
pub mod required;
pub mod routes;
pub mod start;
pub mod try_connection;

use serde_json::json;
use service_api::{
    audit_events::EventName,
    ids::{ConnectionId, FlowId},
};
use service_rules::{
    Timestamp,
    id_token::IdTokenError,
    limits::Rate,
    sso::{IdentityError, NotFresh},
};

use crate::{
    app::App,
    database::{self, Connection},
    flows::{
        RequestMeta,
        oauth::authorize::{AuthorizeError, SignInFlow, SignInPurpose},
        rate_limit::{Limit, RateLimitError},
    },
    issuers::error::IssuerError,
    store::{self, connections::StoredConnection},
};

/// Why a user is not signed in through a connection.
#[derive(Debug, thiserror::Error)]
pub enum SsoError {
    /// The connection does not exist, is not enabled, or has no client ID or credential.
    #[error("the connection cannot be used")]
    NotAvailable,
    /// The response of a provider belongs to no flow of this browser that waits for it.
    #[error("the response belongs to no sign-in that waits for it in this browser")]
    ForeignResponse,
    #[error("the sign-in through {} is refused: {}", .0.connection_id, .0.error)]
    Refused(Box<RefusedSignIn>),
    #[error(transparent)]
    Authorize(#[from] AuthorizeError),
    #[error(transparent)]
    RateLimit(#[from] RateLimitError),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// A sign-in that failed at the provider or because of what the provider sent.
#[derive(Debug)]
pub struct RefusedSignIn {
    pub connection_id: ConnectionId,
    /// What the company calls its sign-in.
    pub company: String,
    pub flow_id: FlowId,
    /// An owner tries the connection.
    pub is_try: bool,
    /// Nothing else signs users of the company in.
    pub required: bool,
    pub error: RefusedSignInError,
}

/// Why a provider's response signs no user in.
#[derive(Debug, thiserror::Error)]
pub enum RefusedSignInError {
    #[error(transparent)]
    Issuer(#[from] IssuerError),
    /// The provider answers with this error code.
    #[error("the provider answers {0}")]
    Provider(String),
    #[error("the response is from another issuer, or does not say from which")]
    OtherIssuer,
    #[error("the response has neither a code nor an error")]
    NoCode,
    #[error(transparent)]
    IdToken(#[from] IdTokenError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    NotFresh(#[from] NotFresh),
}

impl RefusedSignInError {
    /// The reason as audit events and metrics record it.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Issuer(error) if error.is_outage() => "provider_unavailable",
            Self::Issuer(_) => "provider_refused",
            Self::Provider(_) => "provider_error",
            Self::OtherIssuer => "other_issuer",
            Self::NoCode => "no_code",
            Self::IdToken(_) => "id_token",
            Self::Identity(error) => error.as_str(),
            Self::NotFresh(NotFresh) => "not_fresh",
        }
    }
}

impl RefusedSignInError {
    /// Whether the provider fails, or the connection to it is set up wrongly. Otherwise this user is refused.
    #[must_use]
    pub const fn is_of_provider(&self) -> bool {
        !matches!(self, Self::Identity(_) | Self::NotFresh(_))
    }
}

/// Returns a connection that users can sign in through. A connection that an owner tries need not be enabled.
async fn find_usable(db: &Connection, id: ConnectionId, is_try: bool) -> Result<StoredConnection, SsoError> {
    let connection = store::connections::find(db, id).await?.ok_or(SsoError::NotAvailable)?;
    let is_set_up = connection.client_id.is_some() && connection.client_secret.is_some();
    if is_set_up && (is_try || connection.enabled_at.is_some()) { Ok(connection) } else { Err(SsoError::NotAvailable) }
}

/// Whether an owner tries the connection of a flow.
const fn is_try(flow: &SignInFlow) -> bool {
    matches!(flow.wish, SignInPurpose::TryConnection(_))
}

/// The error of a sign-in through this connection.
fn refused(connection: &StoredConnection, flow: &SignInFlow, error: impl Into<RefusedSignInError>) -> SsoError {
    SsoError::Refused(Box::new(RefusedSignIn {
        connection_id: connection.id,
        company: connection.name.clone(),
        flow_id: flow.id,
        is_try: is_try(flow),
        required: connection.required_at.is_some(),
        error: error.into(),
    }))
}

/// Refused sign-ins of one connection that are recorded. Anyone can begin one, so they must not fill the log.
const REFUSALS_RECORDED: Rate = Rate { burst: 100, per_hour: 100 };

/// Tells the owners of the workspace, in their audit log, why a sign-in was refused.
async fn record_refused(
    app: &App,
    meta: &RequestMeta,
    connection: &StoredConnection,
    error: &RefusedSignInError,
    now: Timestamp,
) -> Result<(), SsoError> {
    let reason = error.as_str();
    app.metrics.sso_signed_in(reason);
    let details = json!({ "connectionId": connection.id, "reason": reason });
    let event = meta.event(EventName::SsoRefused, now, details)?;
    let event = event.in_workspace(connection.workspace_id).subject(connection.id);
    let db = app.database.connect().await?;
    let whom = connection.id.to_string();
    let limit = Limit { policy: "sso-refusals", whom: whom.as_bytes() };
    if limit.take_at_rate(app, &db, REFUSALS_RECORDED, now).await?.is_some() {
        return Ok(());
    }
    Ok(event.without_address().insert(&db).await?)
}

/// The redirect URI of a connection. Each has its own: a response to another connection's request does not arrive here.
#[must_use]
pub fn redirect_uri(app: &App, id: ConnectionId) -> String {
    format!("{}/sso/callback/{id}", app.config.base_url)
}
