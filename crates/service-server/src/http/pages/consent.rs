//! The consent page: the user decides whether an app gets access.

use askama::Template;
use axum::{Extension, extract::State, http::StatusCode, response::Response};
use service_api::scope::Scopes;
use service_rules::{client_links::ClientLinks, consent_expiry::ExpiryChoice, redirect};

use crate::{
    app::App,
    flows::{
        RequestMeta,
        oauth::{
            authorize::{self, SignInFlow},
            consent_decision::Decision,
            consent_prompt::{self, ConsentError, NameSource, OfferedExpiry},
        },
        sign_in::browser_session::Browser,
    },
    http::{
        errors::ApiError,
        pages::{
            Choice, STYLESHEET,
            authorize::go_on,
            page,
            request_browser::{Form, RequestBrowser},
            see_other,
            sign_in::{find, leads_to},
            with_cookie,
        },
        path::PathId,
    },
    locales::{Sentence, Texts},
};

/// What the name of a scope's field begins with.
const TICK: &str = "scope.";
/// The values of the buttons that approve. Any other one denies.
const ALLOW: &str = "allow";
const ALLOW_READ: &str = "allow-read";

#[derive(Template)]
#[template(path = "pages/consent.html")]
struct Consent<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    csrf: String,
    action: String,
    switch_action: String,
    client: String,
    name_source: NameSource,
    host: String,
    unproven: bool,
    local: bool,
    links: Vec<LinkShown<'a>>,
    /// Where the browser goes afterwards.
    returns: &'a Sentence,
    email: &'a str,
    groups: Vec<ScopeGroup<'a>>,
    spaces: Vec<Choice>,
    ends: Option<EndDates>,
    /// Reading alone can be allowed by a button of its own.
    read_only: bool,
}

/// A page that the client names.
struct LinkShown<'a> {
    label: &'a str,
    url: String,
    host: String,
}

/// Scopes that the person can leave out, under one heading.
struct ScopeGroup<'a> {
    legend: &'a str,
    scopes: Vec<ScopeShown<'a>>,
}

/// A scope that the person can leave out.
struct ScopeShown<'a> {
    word: &'static str,
    sentence: &'a str,
}

/// The end dates that the person can choose from.
struct EndDates {
    choices: Vec<EndChoice>,
    /// The first one is what the person chose before.
    kept: bool,
}

struct EndChoice {
    value: String,
    text: String,
    selected: bool,
}

impl EndDates {
    fn of(t: &Texts, expiry: &OfferedExpiry) -> Self {
        let text = |choice| match choice {
            ExpiryChoice::InDays(days) => t.consent.expires_in.count(days).to_string(),
            ExpiryChoice::At(at) => t.moment(at),
        };
        let shown = |choice: &ExpiryChoice| EndChoice {
            value: choice.value(),
            text: text(*choice),
            selected: *choice == expiry.preselected,
        };
        let kept = matches!(expiry.preselected, ExpiryChoice::At(_));
        Self { choices: expiry.choices.iter().map(shown).collect(), kept }
    }
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let (browser, flow) = find(&app, browser, &id).await?;
    if !flow.finished {
        match authorize::step(&app, &meta, &browser, &flow).await? {
            // A request that could be read only now is shown by the next request, from the flow as it is stored.
            authorize::Next::Prompt(_) if flow.request().is_some() => {}
            next => return go_on(&app, &meta, Some(&browser), next),
        }
    }
    match consent_prompt::prompt(&app, &browser, &flow).await {
        Ok(question) => ask(&app, &meta, &browser, &flow, question),
        Err(ConsentError::SignInRequired) => see_other(&format!("/sign-in/{id}")),
        Err(failure) => Err(failure.into()),
    }
}

pub async fn decide(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let field = |name| form.get(name).to_owned();
    let (space, expires, decision) = (field("space"), field("expires"), field("decision"));
    let ticked = Scopes::from_words(form.names_after(TICK));
    let (mut browser, flow) = find(&app, Some(form.browser), &id).await?;
    if authorize::must_sign_in(&flow, &browser) {
        return see_other(&format!("/sign-in/{id}"));
    }
    let approval = |read_only| Decision { space: &space, ticked, read_only, expires: &expires };
    let location = match decision.as_str() {
        ALLOW => consent_prompt::approve(&app, &meta, &mut browser, &flow, approval(false)).await,
        ALLOW_READ => consent_prompt::approve(&app, &meta, &mut browser, &flow, approval(true)).await,
        _ => consent_prompt::deny(&app, &browser, &flow).await,
    };
    match location {
        Ok(location) => Ok(with_cookie(see_other(&location)?, &browser)),
        // It became required meanwhile that the user signs in through their company.
        Err(ConsentError::SignInRequired) => see_other(&format!("/sign-in/{id}")),
        Err(failure) => Err(failure.into()),
    }
}

/// Lets the user sign in to another account.
pub async fn switch(State(app): State<App>, PathId(id): PathId, form: Form) -> Result<Response, ApiError> {
    let (mut browser, flow) = find(&app, Some(form.browser), &id).await?;
    authorize::sign_out_browser(&app, &mut browser).await?;
    Ok(with_cookie(see_other(&format!("/sign-in/{}", flow.id))?, &browser))
}

fn links(t: &Texts, links: ClientLinks) -> Vec<LinkShown<'_>> {
    let ClientLinks { website, policy, terms } = links;
    let named = [(&t.consent.website, website), (&t.consent.policy, policy), (&t.consent.terms, terms)];
    let shown = named.into_iter().filter_map(|(label, url)| Some((label, url?)));
    shown.map(|(label, url)| LinkShown { label, host: redirect::host(&url), url }).collect()
}

fn ask(
    app: &App,
    meta: &RequestMeta,
    browser: &Browser,
    flow: &SignInFlow,
    question: consent_prompt::ConsentPrompt,
) -> Result<Response, ApiError> {
    let first_party = question.name_source.is_first_party();
    let t = app.locales.of(meta.language);
    let sentence = |word| if first_party { t.own_scope(word) } else { t.scope(word) };
    let group = |legend, scopes: Scopes| ScopeGroup {
        legend,
        scopes: scopes.words().map(|word| ScopeShown { word, sentence: sentence(word) }).collect(),
    };
    let asks = if first_party { &t.consent.asks_own } else { &t.consent.asks };
    let groups = [group(asks, question.offered.new), group(&t.consent.held, question.offered.held)];
    let choice = |space: consent_prompt::SpaceChoice| Choice {
        value: space.value,
        name: space.name,
        owner: space.owner,
        checked: space.usual,
    };
    let title = match &question.name_source {
        NameSource::FirstParty => t.consent.title_own.to_string(),
        NameSource::Operator => t.consent.title_client.with("client", &question.client).to_string(),
        NameSource::Unverified { .. } => t.consent.title_app.to_string(),
    };
    let template = Consent {
        t,
        title: &title,
        stylesheet: STYLESHEET,
        csrf: browser.form_token(app),
        action: format!("/consent/{}", flow.id),
        switch_action: format!("/consent/{}/switch", flow.id),
        client: question.client,
        name_source: question.name_source,
        host: question.host,
        unproven: question.unproven,
        local: question.local,
        links: links(t, question.links),
        returns: if question.local { &t.consent.returns_local } else { &t.consent.returns_to },
        email: browser.person.as_ref().map_or("", |person| &person.email),
        groups: groups.into_iter().filter(|group| !group.scopes.is_empty()).collect(),
        spaces: question.spaces.into_iter().map(choice).collect(),
        ends: question.expiry.as_ref().map(|expiry| EndDates::of(t, expiry)),
        read_only: question.offered.can_be_read_only(),
    };
    page(t, StatusCode::OK, &template, leads_to(flow))
}
