//! A client requests access (`/oauth/authorize`).
//!
//! 1. Find the client and its redirect URI. Until both are known, no browser is redirected. A client whose metadata
//!    document has to be fetched is known only after the user has signed in: until then the parameters are stored unread.
//! 2. Read and check the request.
//! 3. Store the request in a flow that only this browser can continue: the user signs in and consents, and a code is sent
//!    back. A user who is signed in and has consented before is not prompted again.

use service_api::ids::{FlowId, Id as _};
use service_rules::{
    Timestamp,
    authorization::{
        self, AuthorizationRequest, AuthorizationRequestError, AuthorizationResponse, Parameters, RedirectError,
        RedirectTarget,
    },
    clients::Client,
    consent, lifetimes,
    redirect::{self, RedirectKind},
    signing::later,
};

use crate::{
    app::App,
    crypto::random,
    database,
    flows::{
        RequestMeta,
        oauth::{
            client_metadata::{self, ClientMetadataError, FoundClient},
            consent_prompt, consents,
        },
        rate_limit::RateLimitError,
        sign_in::{
            browser_session::{self, Browser},
            devices::{self, BeginPolicies},
        },
        sso::required,
    },
    store::{self, consents::ConsentKey},
};

pub use crate::store::sign_in_flows::{SignInFlow, SignInPurpose, WorkspacePlace};

/// What happens next in the browser.
pub enum Next {
    SignIn(FlowId),
    /// The user is prompted for consent.
    Prompt(FlowId),
    /// The browser is redirected to the client with a response.
    Redirect(String),
    /// The user decides whether the browser is redirected with an error response, because the client is not verified.
    OfferRedirect {
        /// The URL of the response. `None`: it would start an app, so the page offers no link.
        location: Option<String>,
        host: String,
        error: AuthorizationRequestError,
    },
    /// The user wanted to see their account.
    Account,
    /// The user wanted to change something on a page of a workspace.
    Workspace(WorkspacePlace),
}

/// Why an authorization request is shown to the user as an error, instead of being answered to its client.
#[derive(Debug, thiserror::Error)]
pub enum AuthorizeError {
    #[error(transparent)]
    Redirect(#[from] RedirectError),
    #[error(transparent)]
    ClientMetadata(#[from] ClientMetadataError),
    /// The client's metadata document is fetched after sign-in only, and `prompt=none` forbids the sign-in.
    #[error("prompt=none forbids the sign-in that fetching the metadata document needs")]
    PromptNone,
    #[error(transparent)]
    RateLimit(#[from] RateLimitError),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// The browser that sent an authorization request, and what happens next in it.
pub struct Begun {
    /// `None`: no session was needed.
    pub browser: Option<Browser>,
    pub next: Next,
}

pub async fn begin(
    app: &App,
    meta: &RequestMeta,
    seen: Option<Browser>,
    parameters: &Parameters<'_>,
) -> Result<Begun, AuthorizeError> {
    let now = app.clock.now();
    let id = authorization::client_id(parameters)?;
    let user_id = seen.as_ref().and_then(|browser| browser.person.as_ref()).map(|person| person.user_id);
    let client = match client_metadata::find_client(app, meta, id, user_id).await? {
        FoundClient::Current(client) => client,
        // The stored document suffices for the response that no user is signed in, and for nothing else.
        FoundClient::Unfetched(known) if authorization::is_silent(parameters) => {
            Some(known.ok_or(AuthorizeError::PromptNone)?)
        }
        FoundClient::Unfetched(_) => return begin_unread(app, meta, seen, parameters).await,
    };
    let target = authorization::find_target(parameters, client.as_ref())?;
    let respond = |error| error_response(app, parameters, &target, error);
    let request = match authorization::read(parameters, &target, &app.config.base_url) {
        Ok(request) => request,
        Err(error) => return Ok(Begun { browser: seen, next: respond(error) }),
    };
    if request.prompt.none {
        let signed_in = seen.as_ref().filter(|browser| !needs_sign_in(&request, browser, now));
        let Some(browser) = signed_in else {
            return Ok(Begun { browser: seen, next: respond(AuthorizationRequestError::LoginRequired) });
        };
        if is_outdated(app, browser).await? {
            return Ok(Begun { browser: seen, next: respond(AuthorizationRequestError::LoginRequired) });
        }
        if needs_prompt(app, browser, target.client, &request).await? {
            return Ok(Begun { browser: seen, next: respond(AuthorizationRequestError::ConsentRequired) });
        }
    }
    let browser = known_or_new(app, meta, seen).await?;
    let flow = open_flow(app, meta, &browser, SignInPurpose::Access(request)).await?;
    let next = step(app, meta, &browser, &flow).await?;
    Ok(Begun { browser: Some(browser), next })
}

/// Sends the user to sign in, before anything is judged that depends on the client's metadata document.
async fn begin_unread(
    app: &App,
    meta: &RequestMeta,
    seen: Option<Browser>,
    parameters: &Parameters<'_>,
) -> Result<Begun, AuthorizeError> {
    let browser = known_or_new(app, meta, seen).await?;
    let flow = open_flow(app, meta, &browser, SignInPurpose::Unread(parameters.known())).await?;
    Ok(Begun { browser: Some(browser), next: Next::SignIn(flow.id) })
}

async fn known_or_new(app: &App, meta: &RequestMeta, seen: Option<Browser>) -> Result<Browser, RateLimitError> {
    match seen {
        Some(browser) => Ok(browser),
        None => browser_session::open(app, meta).await,
    }
}

/// Sends a client an error response. For a client that is not verified, the user decides whether it is sent.
fn error_response(
    app: &App,
    parameters: &Parameters<'_>,
    target: &RedirectTarget<'_>,
    error: AuthorizationRequestError,
) -> Next {
    let (uri, state) = (&target.redirect_uri, authorization::state(parameters));
    let response = AuthorizationResponse::Error(error);
    let location = authorization::response_url(uri, state.as_deref(), &app.config.base_url, &response);
    if consent::is_unproven(target.client, uri) {
        let is_page = matches!(redirect::check(uri), Ok(RedirectKind::Web | RedirectKind::Loopback));
        Next::OfferRedirect { location: is_page.then_some(location), host: redirect::host(uri), error }
    } else {
        Next::Redirect(location)
    }
}

/// Stores what the user wants until they have signed in and consented.
pub async fn open_flow(
    app: &App,
    meta: &RequestMeta,
    browser: &Browser,
    wish: SignInPurpose,
) -> Result<SignInFlow, RateLimitError> {
    let now = app.clock.now();
    let (id, expires_at) = (random::id_in(browser.id.shard(), now)?, later(now, lifetimes::SIGN_IN_FLOW));
    let db = app.database.connect().await?;
    let policies = BeginPolicies { device: "flows-device", network: "flows-network" };
    if let Some(limited) = devices::count_begin(app, meta, &db, policies, now).await? {
        return Err(limited.into());
    }
    let made_since = later(now, -lifetimes::ANONYMOUS_BROWSER);
    store::browser_sessions::extend(&db, browser.id, made_since, expires_at).await?;
    store::sign_in_flows::insert(&db, id, browser.id, &wish, now..expires_at).await?;
    let connection_id = if let SignInPurpose::TryConnection(id) = wish { Some(id) } else { None };
    let (email, otp_id, resend_at, unlinked) = (None, None, None, None);
    let (finished, waiting) = (false, None);
    Ok(SignInFlow { id, wish, email, otp_id, resend_at, created_at: now, finished, connection_id, unlinked, waiting })
}

/// What happens next in a flow of this browser.
pub async fn step(app: &App, meta: &RequestMeta, browser: &Browser, flow: &SignInFlow) -> Result<Next, AuthorizeError> {
    let read;
    let request = match &flow.wish {
        SignInPurpose::Account => {
            // The user must have signed in since the flow began.
            let done = browser.signed_in_since(flow.created_at);
            return Ok(if done { Next::Account } else { Next::SignIn(flow.id) });
        }
        SignInPurpose::Workspace(place) => {
            let done = browser.signed_in_since(flow.created_at);
            return Ok(if done { Next::Workspace(*place) } else { Next::SignIn(flow.id) });
        }
        // What the provider sent is shown when it has sent it.
        SignInPurpose::TryConnection(_) => return Ok(Next::SignIn(flow.id)),
        SignInPurpose::Access(request) => request,
        SignInPurpose::Unread(pairs) => match read_after_sign_in(app, meta, browser, flow, &Parameters(pairs)).await? {
            ReadOutcome::Request(request) => {
                read = request;
                &read
            }
            ReadOutcome::Next(next) => return Ok(next),
        },
    };
    if needs_sign_in(request, browser, flow.created_at) || is_outdated(app, browser).await? {
        return Ok(Next::SignIn(flow.id));
    }
    let db = app.database.connect().await?;
    let client = store::clients::find(&db, &request.client_id).await?;
    let client = client.ok_or_else(|| anyhow::anyhow!("a flow is for a client that does not exist"))?;
    drop(db);
    if needs_prompt(app, browser, &client, request).await? {
        return Ok(Next::Prompt(flow.id));
    }
    match consent_prompt::reuse(app, browser, flow).await? {
        Some(location) => Ok(Next::Redirect(location)),
        None => Ok(Next::Prompt(flow.id)),
    }
}

/// What reading a stored request after the sign-in came to.
enum ReadOutcome {
    Request(AuthorizationRequest),
    /// There is no request to continue with, or no user has signed in.
    Next(Next),
}

/// Fetches the metadata document of a flow's client for the signed-in user, and reads the stored parameters. The response
/// goes only to a redirect URI in the document.
async fn read_after_sign_in(
    app: &App,
    meta: &RequestMeta,
    browser: &Browser,
    flow: &SignInFlow,
    parameters: &Parameters<'_>,
) -> Result<ReadOutcome, AuthorizeError> {
    let Some(person) = &browser.person else { return Ok(ReadOutcome::Next(Next::SignIn(flow.id))) };
    let id = authorization::client_id(parameters)?;
    let (FoundClient::Current(client) | FoundClient::Unfetched(client)) =
        client_metadata::find_client(app, meta, id, Some(person.user_id)).await?;
    let target = authorization::find_target(parameters, client.as_ref())?;
    match authorization::read(parameters, &target, &app.config.base_url) {
        Ok(request) => {
            let db = app.database.connect().await?;
            store::sign_in_flows::set_request(&db, flow.id, &request).await?;
            Ok(ReadOutcome::Request(request))
        }
        Err(error) => Ok(ReadOutcome::Next(error_response(app, parameters, &target, error))),
    }
}

fn needs_sign_in(request: &AuthorizationRequest, browser: &Browser, asked_at: Timestamp) -> bool {
    // The client expects another user than the one who is signed in.
    let is_other = request.login_hint.as_ref().is_some_and(|hint| !browser.is_of(hint));
    match (request.prompt.login || is_other, request.max_age) {
        (true, _) => !browser.signed_in_since(asked_at),
        // A code that is not enough for step-up is a new sign-in all the same: the client gets one, and learns the rest from the API.
        (false, Some(seconds)) => {
            !browser.authenticated_since(later(asked_at, -seconds)) && !browser.signed_in_here_since(asked_at)
        }
        (false, None) => browser.person.is_none(),
    }
}

/// Whether the user has to sign in through their company, although they are signed in with this browser.
async fn is_outdated(app: &App, browser: &Browser) -> Result<bool, database::Error> {
    match &browser.person {
        Some(person) => required::is_outdated(app, &app.database.connect().await?, person).await,
        None => Ok(false),
    }
}

async fn needs_prompt(
    app: &App,
    browser: &Browser,
    client: &Client,
    request: &AuthorizationRequest,
) -> Result<bool, database::Error> {
    let Some(person) = &browser.person else { return Ok(true) };
    let db = app.database.connect().await?;
    let host = redirect::host(&request.redirect_uri);
    let (user_id, audience) = (person.user_id, &request.audience);
    let about = ConsentKey { user_id, client_id: &client.id, redirect_host: &host, audience };
    let found = store::consents::find(&db, about, consents::counting_at(app.clock.now())).await?;
    let prior = found.map(|found| found.prior());
    Ok(consent::needs_prompt(client, &request.redirect_uri, request.scopes, prior, request.prompt))
}

/// Finds a flow of this browser. Flows of other browsers are not found.
pub async fn find_flow(app: &App, browser: &Browser, id: &str) -> anyhow::Result<Option<SignInFlow>> {
    let Ok(id) = id.parse() else { return Ok(None) };
    let db = app.database.connect().await?;
    Ok(store::sign_in_flows::find(&db, id, browser.id, app.clock.now()).await?)
}

/// Whether the user has to sign in before the flow continues.
#[must_use]
pub fn must_sign_in(flow: &SignInFlow, browser: &Browser) -> bool {
    flow.request().is_none_or(|request| needs_sign_in(request, browser, flow.created_at))
}

/// The name of a flow's client. If the name is not verified, the redirect host; if its metadata document has not been
/// fetched, the host of the document.
pub async fn client_name(app: &App, flow: &SignInFlow) -> anyhow::Result<Option<String>> {
    let request = match &flow.wish {
        SignInPurpose::Account | SignInPurpose::Workspace(_) | SignInPurpose::TryConnection(_) => return Ok(None),
        SignInPurpose::Unread(pairs) => {
            return Ok(authorization::client_id(&Parameters(pairs)).ok().map(redirect::host));
        }
        SignInPurpose::Access(request) => request,
    };
    let db = app.database.connect().await?;
    let client = store::clients::find(&db, &request.client_id).await?;
    Ok(client.map(|client| {
        if consent::is_name_verified(client.kind) {
            app.config.brand.client_name(&client.id, client.name)
        } else {
            redirect::host(&request.redirect_uri)
        }
    }))
}

/// The email address that the client of a flow expects the user to sign in with.
#[must_use]
pub fn login_hint(flow: &SignInFlow) -> Option<&str> {
    match &flow.wish {
        SignInPurpose::Account | SignInPurpose::Workspace(_) | SignInPurpose::TryConnection(_) => None,
        SignInPurpose::Access(request) => request.login_hint.as_deref(),
        SignInPurpose::Unread(pairs) => authorization::login_hint(&Parameters(pairs)),
    }
}

/// Signs the user out of this browser. Its flows continue.
pub async fn sign_out_browser(app: &App, browser: &mut Browser) -> anyhow::Result<()> {
    let db = app.database.connect().await?;
    browser.renew(app, &db, None).await?;
    browser.person = None;
    Ok(())
}
