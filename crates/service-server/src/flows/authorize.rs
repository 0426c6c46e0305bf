//! A client asks for access (`/oauth/authorize`).
//!
//! 1. Who asks, and where its answer goes: until both are known, nothing is sent anywhere.
//! 2. What it asks for, and whether that can be.
//! 3. The request waits in a flow that only this browser can go on with: the person signs in, agrees, and a code is sent
//!    back. Whoever is signed in and has agreed before is not asked again.

use service_api::ids::FlowId;
use service_rules::{
    Timestamp,
    authorization::{self, Answer, NoClient, Parameters, Refusal, Request},
    clients::Client,
    consent, lifetimes,
    limits::Limited,
    redirect,
    signing::later,
};

use crate::{
    app::App,
    failure::Failure,
    flows::{
        Asker, agree,
        browser::{self, Browser},
        client_documents,
        limit::{Limit, network_of},
    },
    mint,
    store::{self, consents::About},
};

pub use crate::store::sign_in_flows::Flow;

/// What happens next in the browser.
pub enum Next {
    SignIn(FlowId),
    Ask(FlowId),
    /// The client gets its answer.
    Answer(String),
    /// The same, but the person has to send it: whoever asked could be anybody.
    Offer {
        location: String,
        host: String,
        refusal: Refusal,
    },
    /// The person wanted to see their account.
    Account,
}

#[derive(Debug)]
pub enum NotBegun {
    NoClient(NoClient),
    /// The client's own document could not be had.
    Document(client_documents::Refusal),
    Limited(Limited),
}

pub async fn begin(
    app: &App,
    asker: &Asker,
    seen: Option<Browser>,
    parameters: &Parameters<'_>,
) -> Result<(Option<Browser>, Next), Failure<NotBegun>> {
    let now = app.clock.now();
    let no_client = |why| Failure::Refused(NotBegun::NoClient(why));
    let id = authorization::client_id(parameters).map_err(no_client)?;
    let client = client_documents::find_client(app, asker, id).await;
    let client = client.map_err(|failure| failure.map(NotBegun::Document))?;
    let to = authorization::address(parameters, client.as_ref()).map_err(no_client)?;
    let (base_url, state) = (&app.config.base_url, authorization::state(parameters));
    let refuse = |refusal: Refusal| {
        let location = authorization::response(&to.redirect_uri, state.as_deref(), base_url, &Answer::Refused(refusal));
        // Whoever could be anybody is answered only if somebody wants it to be.
        if consent::is_unproven(to.client, &to.redirect_uri) {
            Next::Offer { location, host: redirect::host(&to.redirect_uri), refusal }
        } else {
            Next::Answer(location)
        }
    };
    let request = match authorization::read(parameters, &to, base_url) {
        Ok(request) => request,
        Err(refusal) => return Ok((seen, refuse(refusal))),
    };
    if request.prompt.none {
        let Some(browser) = seen.as_ref().filter(|browser| !needs_sign_in(&request, browser, now)) else {
            return Ok((seen, refuse(Refusal::LoginRequired)));
        };
        if must_ask(app, browser, to.client, &request).await? {
            return Ok((seen, refuse(Refusal::ConsentRequired)));
        }
    }
    let limited = |failure: Failure<Limited>| failure.map(NotBegun::Limited);
    let browser = match seen {
        Some(browser) => browser,
        None => browser::open(app, asker).await.map_err(limited)?,
    };
    let flow = open_flow(app, asker, &browser, Some(request)).await.map_err(limited)?;
    let next = step(app, &browser, &flow).await?;
    Ok((Some(browser), next))
}

/// Puts a request aside until the person has done what it takes; without one they want to see their account.
pub async fn open_flow(
    app: &App,
    asker: &Asker,
    browser: &Browser,
    request: Option<Request>,
) -> Result<Flow, Failure<Limited>> {
    let now = app.clock.now();
    let (id, expires_at) = (mint::id(now)?, later(now, lifetimes::SIGN_IN_FLOW));
    let db = app.database.connect().await?;
    let network = network_of(asker.address);
    let limit = Limit { policy: "flows-network", whom: network.as_bytes() };
    if let Some(limited) = limit.take_at_rate(app, &db, app.config.limits.browsers_per_network, now).await? {
        return Err(Failure::Refused(limited));
    }
    let made_since = later(now, -lifetimes::ANONYMOUS_BROWSER);
    store::browser_sessions::extend(&db, browser.id, made_since, expires_at).await?;
    store::sign_in_flows::insert(&db, id, browser.id, request.as_ref(), (now, expires_at)).await?;
    Ok(Flow { id, request, email: None, otp_id: None, resend_at: None, created_at: now, finished: false })
}

/// Where a flow of this browser is.
pub async fn step(app: &App, browser: &Browser, flow: &Flow) -> anyhow::Result<Next> {
    let Some(request) = &flow.request else {
        // Whoever wants to sign in again has to have done so since.
        let done = browser.signed_in_since(flow.created_at);
        return Ok(if done { Next::Account } else { Next::SignIn(flow.id) });
    };
    if needs_sign_in(request, browser, flow.created_at) {
        return Ok(Next::SignIn(flow.id));
    }
    let db = app.database.connect().await?;
    let client = store::clients::find(&db, &request.client_id).await?;
    let client = client.ok_or_else(|| anyhow::anyhow!("a flow is for a client that does not exist"))?;
    drop(db);
    if must_ask(app, browser, &client, request).await? {
        return Ok(Next::Ask(flow.id));
    }
    match agree::go_on_as_before(app, browser, flow).await? {
        Some(location) => Ok(Next::Answer(location)),
        None => Ok(Next::Ask(flow.id)),
    }
}

fn needs_sign_in(request: &Request, browser: &Browser, asked_at: Timestamp) -> bool {
    let since = match (request.prompt.login, request.max_age) {
        (true, _) => asked_at,
        (false, Some(seconds)) => later(asked_at, -seconds),
        (false, None) => Timestamp::MIN,
    };
    !browser.signed_in_since(since)
}

async fn must_ask(app: &App, browser: &Browser, client: &Client, request: &Request) -> anyhow::Result<bool> {
    let Some(person) = &browser.person else { return Ok(true) };
    let db = app.database.connect().await?;
    let host = redirect::host(&request.redirect_uri);
    let (user_id, audience) = (person.user_id, &request.audience);
    let about = About { user_id, client_id: &client.id, redirect_host: &host, audience };
    let agreed = store::consents::find(&db, about).await?.map(|found| consent::Agreed { scopes: found.scopes });
    Ok(consent::must_ask(client, &request.redirect_uri, request.scopes, agreed, request.prompt))
}

/// The flow of this name in this browser; in any other there is none.
pub async fn find_flow(app: &App, browser: &Browser, id: &str) -> anyhow::Result<Option<Flow>> {
    let Ok(id) = id.parse() else { return Ok(None) };
    let db = app.database.connect().await?;
    Ok(store::sign_in_flows::find(&db, id, browser.id, app.clock.now()).await?)
}

/// Whether the person has to sign in before anything else happens in this flow.
#[must_use]
pub fn must_sign_in(flow: &Flow, browser: &Browser) -> bool {
    flow.request.as_ref().is_none_or(|request| needs_sign_in(request, browser, flow.created_at))
}

/// What the client of a flow is called.
pub async fn client_name(app: &App, flow: &Flow) -> anyhow::Result<Option<String>> {
    let Some(request) = &flow.request else { return Ok(None) };
    let db = app.database.connect().await?;
    Ok(store::clients::find(&db, &request.client_id).await?.map(|client| client.name))
}

/// Nobody is signed in in this browser any more; what is under way there goes on.
pub async fn forget_person(app: &App, browser: &mut Browser) -> anyhow::Result<()> {
    let db = app.database.connect().await?;
    browser.renew(app, &db, None).await?;
    browser.person = None;
    Ok(())
}
