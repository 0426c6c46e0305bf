//! Prompts the user to approve or deny the access of a client, and sends the client its response.

use service_api::{ids::Id as _, workspaces::PERSONAL};
use service_rules::{
    Timestamp,
    authorization::{self, AuthorizationRequest, AuthorizationRequestError, AuthorizationResponse},
    client_links::ClientLinks,
    clients::{Client, ClientKind},
    codes::Code,
    consent::{self, OfferedScopes},
    consent_expiry::ExpiryChoice,
    lifetimes, redirect,
    signing::later,
};

use crate::{
    app::App,
    crypto::random,
    database::{self, Connection},
    flows::{
        RequestMeta,
        clients::blocked_hosts,
        oauth::{
            consent_decision::{Decided, Decision, EndDates, GrantedAccess, PriorAccess},
            consents,
        },
        revocation::RevocationTransaction,
        sign_in::browser_session::Browser,
        sso::required,
    },
    store::{
        self,
        authorization_codes::{CodeAccess, CodeKey},
        browser_sessions::SignedInUser,
        consents::{Consent, ConsentKey},
        sign_in_flows::SignInFlow,
    },
};

/// What the user is shown.
pub struct ConsentPrompt {
    pub client: String,
    pub name_source: NameSource,
    pub host: String,
    pub unproven: bool,
    /// The response goes to the user's own machine.
    pub local: bool,
    /// The pages that the client names. No one has verified them.
    pub links: ClientLinks,
    pub offered: OfferedScopes,
    pub spaces: Vec<SpaceChoice>,
    /// The end dates that the user can choose from, and the preselected one. `None`: the user signs in to a first-party
    /// client, whose sessions have no end date but the longest.
    pub expiry: Option<OfferedExpiry>,
}

/// The end dates that the user can choose from.
pub struct OfferedExpiry {
    pub choices: Vec<ExpiryChoice>,
    pub preselected: ExpiryChoice,
}

/// Who verified the name of a client.
pub enum NameSource {
    /// It is a first-party client: it has access to everything that the user has access to.
    FirstParty,
    Operator,
    /// The client chose its name itself. Where it is described, if it has a client metadata document.
    Unverified {
        described_by: Option<String>,
    },
}

impl NameSource {
    fn of(client: &Client) -> Self {
        match client.kind {
            ClientKind::FirstParty => Self::FirstParty,
            ClientKind::Registered => Self::Operator,
            ClientKind::Dynamic => Self::Unverified { described_by: None },
            ClientKind::Document => Self::Unverified { described_by: Some(redirect::host(&client.id)) },
        }
    }

    #[must_use]
    pub const fn is_first_party(&self) -> bool {
        matches!(self, Self::FirstParty)
    }

    /// Whether the client chose its name itself.
    #[must_use]
    pub const fn is_stranger(&self) -> bool {
        matches!(self, Self::Unverified { .. })
    }

    /// The host of the client metadata document, if that is where the client's name comes from.
    #[must_use]
    pub fn described_by(&self) -> Option<&str> {
        match self {
            Self::Unverified { described_by } => described_by.as_deref(),
            Self::FirstParty | Self::Operator => None,
        }
    }
}

/// A space that the user can choose for the client.
pub struct SpaceChoice {
    /// The value in the form.
    pub value: String,
    /// The name of a workspace; personal space has none.
    pub name: String,
    /// The email address of a workspace's owner. Personal space has none.
    pub owner: Option<String>,
    /// Whether the choice is preselected.
    pub usual: bool,
}

/// Why a consent is not prompted for or not recorded.
#[derive(Debug, thiserror::Error)]
pub enum ConsentError {
    /// No user is signed in, or the user was disabled or has to sign in through their company.
    #[error("the user has to sign in")]
    SignInRequired,
    /// The client has received its response.
    #[error("the authorization request is completed")]
    Finished,
    #[error("the user has no access to the chosen space")]
    NoAccessToSpace,
    /// The chosen end date was not offered, or it passed while the page was open.
    #[error("the chosen end date is not available")]
    UnavailableEndDate,
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// What issuing the authorization code came to. A refusal is data until the transaction is committed or given up.
enum CodeOutcome {
    /// The URL that the browser is redirected to.
    Issued(String),
    SignInRequired,
    Finished,
}

impl CodeOutcome {
    fn into_result(self) -> Result<String, ConsentError> {
        match self {
            Self::Issued(location) => Ok(location),
            Self::SignInRequired => Err(ConsentError::SignInRequired),
            Self::Finished => Err(ConsentError::Finished),
        }
    }
}

/// An authorization request, and the user who is prompted.
pub(super) struct PendingConsent<'a> {
    pub browser: &'a Browser,
    pub person: &'a SignedInUser,
    pub request: &'a AuthorizationRequest,
    pub host: String,
}

impl<'a> PendingConsent<'a> {
    fn of(browser: &'a Browser, flow: &'a SignInFlow) -> Result<Self, ConsentError> {
        let person = browser.person.as_ref().ok_or(ConsentError::SignInRequired)?;
        let request = flow.request().ok_or(ConsentError::Finished)?;
        Ok(Self { browser, person, request, host: redirect::host(&request.redirect_uri) })
    }

    /// The client, if the user can decide about it.
    pub(super) async fn client(&self, db: &Connection) -> Result<Client, ConsentError> {
        let client = store::clients::find(db, &self.request.client_id).await?;
        client.filter(|client| !client.disabled).ok_or(ConsentError::Finished)
    }

    /// The consent that the user gave to the client before.
    pub(super) async fn prior(&self, db: &Connection, now: Timestamp) -> Result<Option<Consent>, database::Error> {
        store::consents::find(db, self.about(), consents::counting_at(now)).await
    }

    pub(super) fn about(&self) -> ConsentKey<'_> {
        ConsentKey {
            user_id: self.person.user_id,
            client_id: &self.request.client_id,
            redirect_host: &self.host,
            audience: &self.request.audience,
        }
    }
}

/// Reads what the user is prompted with.
pub async fn prompt(app: &App, browser: &Browser, flow: &SignInFlow) -> Result<ConsentPrompt, ConsentError> {
    let pending = PendingConsent::of(browser, flow)?;
    if flow.finished {
        return Err(ConsentError::Finished);
    }
    let db = app.database.connect().await?;
    let client = pending.client(&db).await?;
    let prior = pending.prior(&db, app.clock.now()).await?;
    let usual = prior.as_ref().and_then(|prior| prior.workspace_id);
    let mut spaces =
        vec![SpaceChoice { value: PERSONAL.into(), name: String::new(), owner: None, usual: usual.is_none() }];
    for workspace in store::members::list_workspaces(&db, pending.person.user_id).await? {
        spaces.push(SpaceChoice {
            value: workspace.id.to_string(),
            name: workspace.name,
            owner: Some(workspace.owner),
            usual: usual == Some(workspace.id),
        });
    }
    if !spaces.iter().any(|space| space.usual) {
        spaces[0].usual = true;
    }
    let uri = &pending.request.redirect_uri;
    let unproven = consent::is_unproven(&client, uri);
    if unproven {
        // Whichever page sent the user here, one click is not enough: the user has to choose, and so to read.
        for space in &mut spaces {
            space.usual = false;
        }
    }
    Ok(ConsentPrompt {
        name_source: NameSource::of(&client),
        unproven,
        links: shown_links(&db, &client.id).await?,
        local: redirect::check(uri) == Ok(redirect::RedirectKind::Loopback),
        offered: OfferedScopes::of(&client, pending.request.scopes, prior.as_ref().map(Consent::prior)),
        expiry: (client.kind != ClientKind::FirstParty).then(|| {
            let ends = EndDates::of(app, &pending, prior.as_ref());
            OfferedExpiry { choices: ends.offered(), preselected: ends.preselected() }
        }),
        client: shown_name(app, client, &pending.host),
        host: pending.host,
        spaces,
    })
}

/// What the page calls a client. One that chose its name itself may have done so before the service had the same name.
fn shown_name(app: &App, client: Client, host: &str) -> String {
    let brand = &app.config.brand;
    if !consent::is_name_verified(client.kind) && brand.own_names.is_brand(&client.name) {
        return host.to_owned();
    }
    brand.client_name(&client.id, client.name)
}

/// The links of a client, without those to hosts that an operator has blocked since.
async fn shown_links(db: &Connection, client_id: &str) -> Result<ClientLinks, database::Error> {
    let mut links = store::clients::find_links(db, client_id).await?;
    for link in [&mut links.website, &mut links.policy, &mut links.terms] {
        if let Some(address) = link
            && blocked_hosts::is_blocked(db, &[address]).await?
        {
            *link = None;
        }
    }
    Ok(links)
}

/// Carries out the user's decision: stores the consent and issues an authorization code, or denies access if nothing was
/// selected. Returns the URL that the browser is redirected to.
pub async fn approve(
    app: &App,
    meta: &RequestMeta,
    browser: &mut Browser,
    flow: &SignInFlow,
    decision: Decision<'_>,
) -> Result<String, ConsentError> {
    let now = app.clock.now();
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    let location = {
        let pending = PendingConsent::of(browser, flow)?;
        // Concurrent exchanges of codes and decisions on consents come before this, or after it.
        if !store::users::lock(transaction.db(), pending.person.user_id).await? {
            return Err(ConsentError::SignInRequired);
        }
        let prior = PriorAccess::find(&transaction, &pending).await?;
        match decision.read(app, &pending, &prior, now)? {
            Decided::Nothing => {
                prior.take_back(&mut transaction, meta, &pending).await?;
                let location = finish_denied(app, transaction.db(), &pending, flow).await?;
                transaction.commit().await?;
                return Ok(location);
            }
            Decided::Access(access) => {
                prior.replace(&mut transaction, meta, &pending, access).await?;
                issue_code(app, transaction.db(), &pending, flow, access).await?.into_result()?
            }
        }
    };
    let user_id = browser.person.as_ref().map(|person| person.user_id);
    browser.renew(app, transaction.db(), user_id).await?;
    transaction.commit().await?;
    Ok(location)
}

/// Reuses a prior consent, and issues an authorization code. `None`: the user has to be prompted.
pub async fn reuse(app: &App, browser: &Browser, flow: &SignInFlow) -> anyhow::Result<Option<String>> {
    let Ok(pending) = PendingConsent::of(browser, flow) else { return Ok(None) };
    let (request, db) = (pending.request, app.database.begin().await?);
    // A change of the consent at the same time is committed before the consent is read, or after the code is stored.
    if !store::users::lock_enabled(&db, pending.person.user_id).await? {
        return Ok(None);
    }
    let Some(prior) = pending.prior(&db, app.clock.now()).await? else { return Ok(None) };
    let Some(client) = store::clients::find(&db, &request.client_id).await? else { return Ok(None) };
    if consent::needs_prompt(&client, &request.redirect_uri, request.scopes, Some(prior.prior()), request.prompt) {
        return Ok(None);
    }
    if let Some(id) = prior.workspace_id
        && store::memberships::find_role(&db, pending.person.user_id, id).await?.is_none()
    {
        return Ok(None);
    }
    // No more than the client requests now, even if the prior consent covers more, and for no longer than the consent lasts.
    let access = GrantedAccess { scopes: request.scopes, workspace_id: prior.workspace_id, ends_at: prior.expires_at };
    store::consents::mark_used(&db, pending.about(), app.clock.now()).await?;
    match issue_code(app, &db, &pending, flow, access).await? {
        CodeOutcome::Issued(location) => {
            db.commit().await?;
            Ok(Some(location))
        }
        CodeOutcome::SignInRequired | CodeOutcome::Finished => Ok(None),
    }
}

/// Denies access, and returns the URL that the browser is redirected to.
pub async fn deny(app: &App, browser: &Browser, flow: &SignInFlow) -> Result<String, ConsentError> {
    let pending = PendingConsent::of(browser, flow)?;
    let db = app.database.connect().await?;
    finish_denied(app, &db, &pending, flow).await
}

async fn finish_denied(
    app: &App,
    db: &Connection,
    pending: &PendingConsent<'_>,
    flow: &SignInFlow,
) -> Result<String, ConsentError> {
    if !store::sign_in_flows::mark_finished(db, flow.id, app.clock.now()).await? {
        return Err(ConsentError::Finished);
    }
    let (uri, state) = (&pending.request.redirect_uri, pending.request.state.as_deref());
    let response = AuthorizationResponse::Error(AuthorizationRequestError::AccessDenied);
    Ok(authorization::response_url(uri, state, &app.config.base_url, &response))
}

/// Finishes the flow, and issues its one authorization code.
async fn issue_code(
    app: &App,
    db: &Connection,
    pending: &PendingConsent<'_>,
    flow: &SignInFlow,
    access: GrantedAccess,
) -> anyhow::Result<CodeOutcome> {
    app.revocations.check()?;
    let now: Timestamp = app.clock.now();
    if !store::users::lock_enabled(db, pending.person.user_id).await? {
        return Ok(CodeOutcome::SignInRequired);
    }
    let requirement = required::lock_requirement(app, db, pending.person.user_id).await?;
    if required::is_from_before(requirement, &pending.person.sign_in) {
        return Ok(CodeOutcome::SignInRequired);
    }
    if !store::sign_in_flows::mark_finished(db, flow.id, now).await? {
        return Ok(CodeOutcome::Finished);
    }
    let secret = random::authorization_code(pending.person.user_id.shard())?;
    let code = Code {
        client_id: pending.request.client_id.clone(),
        redirect_uri: pending.request.redirect_uri.clone(),
        challenge: pending.request.challenge.clone(),
        expires_at: later(now, lifetimes::AUTHORIZATION_CODE),
        wrong_verifiers: 0,
        used: false,
    };
    let (user_id, browser_id) = (pending.person.user_id, pending.browser.id);
    let GrantedAccess { scopes, workspace_id, ends_at } = access;
    let audience = pending.request.audience.clone();
    let worth = CodeAccess { user_id, browser_id, scopes, audience, workspace_id, ends_at };
    store::authorization_codes::insert(db, &CodeKey::of(&secret), &code, &worth).await?;
    let (uri, state) = (&pending.request.redirect_uri, pending.request.state.as_deref());
    let response = AuthorizationResponse::Code(secret.expose());
    Ok(CodeOutcome::Issued(authorization::response_url(uri, state, &app.config.base_url, &response)))
}
