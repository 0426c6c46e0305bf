//! Sends a browser to a company's identity provider (`/sso/start`, or a button on the sign-in page).
//!
//! 1. `/sso/start` begins the flow that `/oauth/authorize` begins, with the connection chosen. Without a client it is a
//!    sign-in to the account pages.
//! 2. The hand-off draws a secret, stores its SHA-256 in the flow, and returns the address of the provider's page.
//!
//! A user of a first-party client or of the account pages is handed off at once. For other clients, and if the user may not
//! expect the provider, the sign-in page says first who asks and where the provider is, and the user has to click.

use std::sync::Arc;

use service_api::ids::{ConnectionId, FlowId};
use service_rules::{
    Timestamp, authorization::Parameters, clients::ClientKind, email::Address, lifetimes, signing::later,
};
use url::Url;

use crate::{
    app::App,
    crypto::digest::pkce_challenge,
    database,
    flows::{
        RequestMeta,
        oauth::authorize::{self, Begun, Next, SignInFlow, SignInPurpose},
        sign_in::{
            browser_session::{self, Browser},
            devices::{self, BeginPolicies},
        },
        sso::{RefusedSignInError, SsoError, find_usable, is_try, record_refused, redirect_uri, refused},
    },
    issuers::discovery::ProviderMetadata,
    store::{self, connections::StoredConnection, sign_in_flows::StateKey},
    tokens::sso_state::StateSecret,
};

/// What the service asks a provider for.
const SCOPE: &str = "openid email profile";

/// The provider's page that a browser is sent to.
pub struct HandOff {
    /// What the company calls its sign-in.
    pub company: String,
    pub location: String,
}

/// What `/sso/start` comes to.
pub enum Started {
    /// The browser is sent to the provider.
    HandOff(Browser, HandOff),
    /// The sign-in page names the client first, or no sign-in is needed.
    Next(Begun),
}

/// Where a navigation to `/sso/start` came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NavigationSource {
    /// The user or a program of theirs opened the address, or it is not known.
    User,
    /// A page of another site sent the browser here. It could sign the user in to an account of its own choice.
    OtherSite,
}

/// Begins a sign-in through a connection.
pub async fn begin(
    app: &App,
    meta: &RequestMeta,
    seen: Option<Browser>,
    parameters: &Parameters<'_>,
    source: NavigationSource,
) -> Result<Started, SsoError> {
    let id = parameters.connection().and_then(|id| id.parse().ok()).ok_or(SsoError::NotAvailable)?;
    let db = app.database.connect().await?;
    let connection = find_usable(&db, id, false).await?;
    drop(db);
    let begun = if parameters.has_client() {
        authorize::begin(app, meta, seen, parameters).await?
    } else {
        begin_account(app, meta, seen, id).await?
    };
    let Begun { browser: Some(browser), next: Next::SignIn(flow_id) } = begun else { return Ok(Started::Next(begun)) };
    choose(app, flow_id, Some(id), None).await?;
    let found = authorize::find_flow(app, &browser, &flow_id.to_string()).await?;
    let flow = found.ok_or(SsoError::ForeignResponse)?;
    let is_expected = source == NavigationSource::User && is_expected(app, &browser, &connection).await?;
    if !is_expected || !is_direct(app, &flow).await? {
        return Ok(Started::Next(Begun { browser: Some(browser), next: Next::SignIn(flow_id) }));
    }
    let hand_off = hand_off(app, meta, &browser, &flow).await?;
    Ok(Started::HandOff(browser, hand_off))
}

/// Whether a user who opened a link to this connection expects its provider. Anyone can send such a link: without a domain, the
/// provider is known to no user, and a user who is signed in otherwise would become another user.
async fn is_expected(app: &App, browser: &Browser, connection: &StoredConnection) -> Result<bool, database::Error> {
    if browser.person.as_ref().is_some_and(|person| person.connection_id != Some(connection.id)) {
        return Ok(false);
    }
    let db = app.database.connect().await?;
    let domains = store::workspace_domains::verified_domains_of(&db, connection.id, connection.workspace_id).await?;
    Ok(!domains.is_empty())
}

/// Begins a sign-in to the account pages. A user who is signed in through the connection already stays signed in.
async fn begin_account(
    app: &App,
    meta: &RequestMeta,
    seen: Option<Browser>,
    connection_id: ConnectionId,
) -> Result<Begun, SsoError> {
    let browser = match seen {
        Some(browser) if signed_in_through(&browser) == Some(connection_id) => {
            return Ok(Begun { browser: Some(browser), next: Next::Account });
        }
        Some(browser) => browser,
        None => browser_session::open(app, meta).await?,
    };
    let flow = authorize::open_flow(app, meta, &browser, SignInPurpose::Account).await?;
    Ok(Begun { browser: Some(browser), next: Next::SignIn(flow.id) })
}

/// Stores the connection that the user of a flow is to sign in through. `None`: the user signs in by a code.
pub async fn choose(
    app: &App,
    flow_id: FlowId,
    connection_id: Option<ConnectionId>,
    address: Option<&Address>,
) -> Result<(), database::Error> {
    let db = app.database.connect().await?;
    store::sign_in_flows::choose_connection(&db, flow_id, connection_id, address).await
}

/// The name of the connection that a flow's user is to sign in through, and whether it is the only way. `None`: there is no
/// such connection any longer.
pub async fn chosen(app: &App, flow: &SignInFlow) -> Result<Option<ChosenConnection>, SsoError> {
    let Some(id) = flow.connection_id else { return Ok(None) };
    let db = app.database.connect().await?;
    match find_usable(&db, id, is_try(flow)).await {
        Ok(connection) => {
            let host = Url::parse(&connection.issuer.issuer).ok().and_then(|url| url.host_str().map(str::to_owned));
            let required = connection.required_at.is_some();
            Ok(Some(ChosenConnection { company: connection.name, host: host.unwrap_or_default(), required }))
        }
        Err(SsoError::NotAvailable) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A connection, as the sign-in page offers it.
pub struct ChosenConnection {
    /// What the company calls its sign-in.
    pub company: String,
    /// The host of its provider.
    pub host: String,
    pub required: bool,
}

/// Whether the user of a flow is sent to the provider without a click: nothing but the service itself asks for the sign-in.
pub async fn is_direct(app: &App, flow: &SignInFlow) -> Result<bool, database::Error> {
    match &flow.wish {
        SignInPurpose::Account | SignInPurpose::Workspace(_) | SignInPurpose::TryConnection(_) => Ok(true),
        SignInPurpose::Unread(_) => Ok(false),
        SignInPurpose::Access(request) => {
            let db = app.database.connect().await?;
            let client = store::clients::find(&db, &request.client_id).await?;
            Ok(client.is_some_and(|client| client.kind == ClientKind::FirstParty))
        }
    }
}

/// Sends the browser of a flow to the provider of the chosen connection.
pub async fn hand_off(
    app: &App,
    meta: &RequestMeta,
    browser: &Browser,
    flow: &SignInFlow,
) -> Result<HandOff, SsoError> {
    let now = app.clock.now();
    let id = flow.connection_id.ok_or(SsoError::NotAvailable)?;
    let db = app.database.connect().await?;
    let policies = BeginPolicies { device: "sso-device", network: "sso-network" };
    if let Some(limited) = devices::count_begin(app, meta, &db, policies, now).await? {
        return Err(SsoError::RateLimit(limited.into()));
    }
    let connection = find_usable(&db, id, is_try(flow)).await?;
    drop(db);
    let metadata = find_metadata(app, meta, flow, &connection, now).await?;
    let secret = StateSecret::draw()?;
    let fresh = needs_fresh(flow, browser);
    let digest = secret.digest();
    let key = StateKey { flow_id: flow.id, browser_id: browser.id, connection_id: id, digest: &digest };
    let db = app.database.connect().await?;
    if !store::sign_in_flows::set_state(&db, &key, fresh).await? {
        return Err(SsoError::ForeignResponse);
    }
    let client_id = connection.client_id.as_deref().ok_or(SsoError::NotAvailable)?;
    let state = secret.state(flow.id);
    let (nonce, verifier) = (secret.nonce(&app.root_keys), secret.verifier(&app.root_keys));
    let (challenge, redirect_uri) = (pkce_challenge(&verifier), redirect_uri(app, id));
    let mut location = metadata.authorization_endpoint.clone();
    let mut query = location.query_pairs_mut();
    query.extend_pairs([
        ("response_type", "code"),
        ("client_id", client_id),
        ("redirect_uri", &redirect_uri),
        ("scope", SCOPE),
        ("state", &state),
        ("nonce", &nonce),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ]);
    if let Some(hint) = flow.email.as_ref().map(Address::as_str).or_else(|| authorize::login_hint(flow)) {
        query.append_pair("login_hint", hint);
    }
    if fresh {
        query.append_pair("prompt", "login").append_pair("max_age", "0");
    }
    drop(query);
    Ok(HandOff { company: connection.name, location: location.into() })
}

/// Returns where the provider's pages are. The owners of the workspace are told if that fails.
async fn find_metadata(
    app: &App,
    meta: &RequestMeta,
    flow: &SignInFlow,
    connection: &StoredConnection,
    now: Timestamp,
) -> Result<Arc<ProviderMetadata>, SsoError> {
    let found = app.issuers.metadata_for_client(&connection.issuer, connection.auth_method).await;
    match found {
        Ok(metadata) => Ok(metadata),
        Err(error) => {
            let error = RefusedSignInError::from(error);
            record_refused(app, meta, connection, &error, now).await?;
            Err(refused(connection, flow, error))
        }
    }
}

/// The connection through which the user of a browser signed in.
fn signed_in_through(browser: &Browser) -> Option<ConnectionId> {
    browser.person.as_ref()?.connection_id
}

/// Whether the provider has to ask the user to sign in again, although it may know the user.
fn needs_fresh(flow: &SignInFlow, browser: &Browser) -> bool {
    match &flow.wish {
        SignInPurpose::Access(request) => request.prompt.login || request.max_age.is_some(),
        // A user who signed in there and has to sign in again, to do something that needs a recent sign-in.
        SignInPurpose::Account | SignInPurpose::Workspace(_) => signed_in_through(browser).is_some(),
        SignInPurpose::Unread(_) | SignInPurpose::TryConnection(_) => false,
    }
}

/// The oldest authentication that suffices for a flow whose provider was told to ask the user again.
pub(super) fn fresh_since(flow: &SignInFlow) -> Timestamp {
    match &flow.wish {
        SignInPurpose::Access(request) => match request.max_age {
            Some(seconds) if !request.prompt.login => later(flow.created_at, -seconds),
            Some(_) | None => flow.created_at,
        },
        _ => later(flow.created_at, -lifetimes::RECENT_SIGN_IN),
    }
}
