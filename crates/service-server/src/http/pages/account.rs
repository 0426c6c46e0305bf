//! `/account`: sessions and connected apps, tokens, and what happened lately.

use askama::Template;
use axum::{Extension, extract::State, http::StatusCode, response::Response};
use service_api::{
    audit_events::EventName,
    cli_tokens::{CreateCliToken, CreatedCliToken, Status},
    workspaces::PERSONAL,
};

use crate::{
    app::App,
    failure::Failure,
    flows::{
        Asker,
        account::{self, Overview, Refusal},
        authorize,
        browser::Browser,
    },
    http::{
        error::ApiError,
        pages::{
            Choice, STYLESHEET, When, page, see_other,
            visitor::{Form, Visitor, forget_cookie},
        },
        path::PathId,
        refusals,
    },
};

#[derive(Template)]
#[template(path = "pages/account.html")]
struct Account<'a> {
    title: &'a str,
    stylesheet: &'a str,
    csrf: String,
    email: String,
    notice: Option<String>,
    problem: Option<String>,
    sessions: Vec<SessionShown>,
    tokens: Vec<TokenShown>,
    events: Vec<EventShown>,
    spaces: Vec<Choice>,
}

struct SessionShown {
    id: String,
    client: String,
    current: bool,
    created: When,
    created_from: String,
    used: When,
    used_from: String,
    scopes: String,
    space: String,
}

struct TokenShown {
    id: String,
    name: String,
    hint: String,
    space: String,
    scopes: String,
    created: When,
    expires: When,
    used: Option<When>,
    live: bool,
    state: &'static str,
}

struct EventShown {
    at: When,
    what: String,
    address: Option<String>,
}

#[derive(Template)]
#[template(path = "pages/token_created.html")]
struct TokenCreated<'a> {
    title: &'a str,
    stylesheet: &'a str,
    name: &'a str,
    token: &'a str,
    expires: When,
}

pub async fn show(State(app): State<App>, Visitor(browser): Visitor) -> Result<Response, ApiError> {
    match browser {
        Some(browser) if browser.person.is_some() => account_page(&app, &browser, StatusCode::OK, None).await,
        _ => see_other("/sign-in"),
    }
}

pub async fn end_session(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let ended = account::end_session(&app, &asker, &form.browser, &id).await;
    answer(&app, &asker, &form.browser, ended).await
}

pub async fn revoke_token(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let ended = account::revoke_token(&app, &asker, &form.browser, &id).await;
    answer(&app, &asker, &form.browser, ended).await
}

pub async fn create_token(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    form: Form,
) -> Result<Response, ApiError> {
    let words = ["read", "write"].iter().filter(|word| !form.get(word).is_empty());
    let request = CreateCliToken {
        name: Some(form.get("name").to_owned()),
        workspace_id: Some(form.get("space").to_owned()),
        scopes: Some(words.map(|word| (*word).to_owned()).collect()),
        expires_in_days: form.get("days").parse().ok(),
    };
    match account::create_token(&app, &asker, &form.browser, &request).await {
        Ok(created) => created_page(&created),
        Err(failure) => answer(&app, &asker, &form.browser, Err(failure)).await,
    }
}

pub async fn sign_out(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    form: Form,
) -> Result<Response, ApiError> {
    account::sign_out(&app, &asker, &form.browser).await?;
    let mut response = see_other("/sign-in")?;
    forget_cookie(response.headers_mut());
    Ok(response)
}

/// Back to the page; or what has to be done first.
async fn answer(
    app: &App,
    asker: &Asker,
    browser: &Browser,
    done: Result<(), Failure<Refusal>>,
) -> Result<Response, ApiError> {
    match done {
        Ok(()) => see_other("/account"),
        Err(Failure::Refused(Refusal::SignIn)) => see_other("/sign-in"),
        Err(Failure::Refused(Refusal::SignInAgain)) => {
            let flow = authorize::open_flow(app, asker, browser, None).await?;
            see_other(&format!("/sign-in/{}", flow.id))
        }
        Err(Failure::Refused(Refusal::NotFound)) => {
            let text = "That session is gone already.".to_owned();
            account_page(app, browser, StatusCode::NOT_FOUND, Some(text)).await
        }
        Err(Failure::Refused(Refusal::Token(refusal))) => {
            let error = refusals::cli_tokens(Failure::Refused(refusal), &app.config.base_url);
            account_page(app, browser, error.status(), Some(error.description().to_owned())).await
        }
        Err(Failure::Broken(broken)) => Err(broken.into()),
    }
}

fn created_page(created: &CreatedCliToken) -> Result<Response, ApiError> {
    let template = TokenCreated {
        title: "Your new token",
        stylesheet: STYLESHEET,
        name: &created.name,
        token: created.access_token.expose(),
        expires: When::of(created.expires_at),
    };
    page(StatusCode::CREATED, &template, None)
}

async fn account_page(
    app: &App,
    browser: &Browser,
    status: StatusCode,
    problem: Option<String>,
) -> Result<Response, ApiError> {
    let overview = match account::overview(app, browser).await {
        Ok(overview) => overview,
        Err(Failure::Refused(_)) => return see_other("/sign-in"),
        Err(Failure::Broken(broken)) => return Err(broken.into()),
    };
    let csrf = browser.form_token(app);
    let template = shown(&overview, browser, csrf, problem);
    page(status, &template, None)
}

fn shown(overview: &Overview, here: &Browser, csrf: String, problem: Option<String>) -> Account<'static> {
    let name_of = |id| overview.workspaces.get(&id).cloned().unwrap_or_else(|| "A workspace that you left".into());
    let space = |id: Option<_>| id.map_or_else(|| "Your personal space".to_owned(), name_of);
    let sessions = overview.sessions.iter().map(|session| SessionShown {
        id: session.id.to_string(),
        client: session.client.name.clone(),
        current: false,
        created: When::of(session.created_at),
        created_from: session.created_from.clone(),
        used: When::of(session.last_used_at),
        used_from: session.last_used_from.clone(),
        scopes: session.scopes.to_string(),
        space: space(session.workspace_id),
    });
    let browsers = overview.browsers.iter().map(|browser| SessionShown {
        id: browser.id.to_string(),
        client: "Browser".into(),
        current: browser.id == here.id,
        created: When::of(browser.signed_in_at),
        created_from: String::new(),
        used: When::of(browser.last_seen_at),
        used_from: String::new(),
        scopes: String::new(),
        space: String::new(),
    });
    let tokens = overview.tokens.iter().map(|token| TokenShown {
        id: token.id.to_string(),
        name: token.name.clone(),
        hint: token.hint.clone(),
        space: space(token.workspace_id),
        scopes: token.scopes.to_string(),
        created: When::of(token.created_at),
        expires: When::of(token.expires_at),
        used: token.last_used_at.map(When::of),
        live: token.status == Status::Active,
        state: match token.status {
            Status::Active => "Active",
            Status::Expired => "Expired",
            Status::Revoked => "Revoked",
        },
    });
    let events = overview.events.iter().map(|event| EventShown {
        at: When::of(event.at),
        what: EventName::parse(&event.event).map_or_else(|| event.event.clone(), |name| name.meaning().to_owned()),
        address: event.address.clone(),
    });
    let personal = Choice { value: PERSONAL.into(), name: "Your personal space".into(), checked: true };
    let others = overview.workspaces.iter();
    let others = others.map(|(id, name)| Choice { value: id.to_string(), name: name.clone(), checked: false });
    Account {
        title: "Your account",
        stylesheet: STYLESHEET,
        csrf,
        email: overview.email.clone(),
        notice: None,
        problem,
        sessions: browsers.chain(sessions).collect(),
        tokens: tokens.collect(),
        events: events.collect(),
        spaces: std::iter::once(personal).chain(others).collect(),
    }
}
