//! `/account/sessions`: where the person is signed in, by browser and by client, and revoking it.

use askama::Template;
use axum::{Extension, extract::State, response::Response};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use service_api::sessions::{MadeTreatment, Session};

use crate::{
    app::App,
    flows::{
        RequestMeta,
        account::{
            self, AccountError,
            sessions::{ClientSessions, FoundSession, Only, SessionKind, Sessions as Found},
        },
    },
    http::{
        errors::ApiError,
        pages::{
            Moments, STYLESHEET, When,
            account::{AccountPage, Frame, Reader, after_form, next_page, not_shown, signed_out, space_name},
            confirm::Question,
            done::Done,
            forms::{FormOutcome, FormProblem, with_problem},
            page,
            request_browser::{Form, RequestBrowser},
            see_other,
        },
        path::PathId,
        query::Query,
    },
    locales::Texts,
};

#[derive(Template)]
#[template(path = "pages/account/sessions.html")]
struct SessionsPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    frame: Frame<'a>,
    browsers: Vec<BrowserShown>,
    more_browsers: bool,
    clients: Vec<ClientShown>,
    /// Whether the page shows a part of what there is.
    part: bool,
    next: Option<String>,
}

struct BrowserShown {
    id: String,
    current: bool,
    signed_in: When,
    used: When,
    /// The browser and its system.
    name: String,
    address: Option<String>,
    /// What it made that still works.
    made: Vec<String>,
}

struct ClientShown {
    name: String,
    verified: bool,
    sessions: Vec<SessionShown>,
    /// How many sessions there are, and where all of them are shown, if these are not all.
    all: Option<(i64, String)>,
}

struct SessionShown {
    id: String,
    created: When,
    created_from: String,
    used: When,
    used_from: String,
    /// What it may do, one sentence a scope.
    may: Vec<String>,
    space: String,
    /// What it made that still works.
    made: Vec<String>,
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    query: Query,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    let only = match (query.get("client"), query.get("browsers")) {
        (Some(client), _) => Only::Client(client),
        (None, Some(_)) => Only::Browsers,
        (None, None) => Only::Everything,
    };
    sessions_page(Reader::of(&app, &meta, &browser).after(&query), only, query.get("cursor"), None).await
}

/// Asks before a session is revoked.
pub async fn confirm_end(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    let reader = Reader::of(&app, &meta, &browser);
    let texts = &reader.t.account;
    let found = match account::sessions::find(&app, &browser, &id).await {
        Ok(found) => found,
        Err(failure) => return not_ended(reader, Err(failure)).await,
    };
    let text = match &found.kind {
        SessionKind::Browser(listed) if listed.id == browser.id => &reader.t.confirm.sign_out_this,
        SessionKind::Browser(_) => &reader.t.confirm.sign_out_browser,
        SessionKind::Client { .. } => &reader.t.confirm.sign_out_app,
    };
    let question = Question {
        title: reader.t.confirm.sign_out.with("name", name_of(reader.t, &found)).to_string(),
        text: text.to_string(),
        action: format!("/account/sessions/{id}/end"),
        button: &texts.sessions.sign_out,
        back: AccountPage::Sessions.path().to_owned(),
        made: found.made.iter().map(|made| made.spoken(reader.t)).collect(),
        ..Question::default()
    };
    question.show(&app, &browser, reader.t)
}

/// Asks before every session is revoked.
pub async fn confirm_end_all(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
) -> Result<Response, ApiError> {
    let Some(browser) = browser.filter(|browser| browser.person.is_some()) else { return see_other("/sign-in") };
    let reader = Reader::of(&app, &meta, &browser);
    let texts = &reader.t.account;
    let question = Question {
        title: reader.t.confirm.everywhere.to_string(),
        text: texts.sessions.everywhere_hint.with("tokens", &texts.sessions.everywhere_tokens).to_string(),
        action: format!("{}/end-all", AccountPage::Sessions.path()),
        button: &texts.sessions.everywhere,
        back: AccountPage::Sessions.path().to_owned(),
        ..Question::default()
    };
    question.show(&app, &browser, reader.t)
}

fn name_of(t: &Texts, found: &FoundSession) -> String {
    match &found.kind {
        SessionKind::Browser(listed) => t.device(listed.origin.agent),
        SessionKind::Client { name } => name.clone(),
    }
}

/// The list again, or the page where the user has to sign in first.
async fn not_ended(reader: Reader<'_>, done: Result<Done, AccountError>) -> Result<Response, ApiError> {
    match after_form(reader, done, AccountPage::Sessions).await? {
        FormOutcome::Redirect(response) => Ok(response),
        FormOutcome::Problem(problem) => sessions_page(reader, Only::Everything, None, Some(problem)).await,
    }
}

pub async fn end(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let made = MadeTreatment::parse(Some(form.get("made"))).unwrap_or_default();
    let reader = Reader::of(&app, &meta, &form.browser);
    let done = match account::sessions::find(&app, &form.browser, &id).await {
        Ok(found) => {
            let name = name_of(reader.t, &found);
            account::sessions::revoke(&app, &meta, &form.browser, &id, made).await.map(|()| Done::SignedOut(name))
        }
        Err(failure) => Err(failure),
    };
    not_ended(reader, done).await
}

/// Signs the person out everywhere, here too.
pub async fn end_all(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    form: Form,
) -> Result<Response, ApiError> {
    let failure = match account::sessions::revoke_all(&app, &meta, &form.browser).await {
        Ok(()) => return signed_out(),
        Err(failure) => failure,
    };
    not_ended(Reader::of(&app, &meta, &form.browser), Err(failure)).await
}

async fn sessions_page(
    reader: Reader<'_>,
    only: Only<'_>,
    cursor: Option<&str>,
    problem: Option<FormProblem>,
) -> Result<Response, ApiError> {
    let Reader { app, browser, t, .. } = reader;
    let found = match account::sessions::list(app, browser, only, cursor).await {
        Ok(found) => found,
        Err(failure) => return not_shown(failure, AccountPage::Sessions),
    };
    let rest = match only {
        Only::Everything => String::new(),
        Only::Browsers => "browsers=all&".into(),
        Only::Client(id) => format!("client={}&", utf8_percent_encode(id, NON_ALPHANUMERIC)),
    };
    let (status, problem) = with_problem(problem);
    let moments = reader.moments();
    let browsers = found.browsers.iter().map(|listed| BrowserShown {
        id: listed.id.to_string(),
        current: listed.id == browser.id,
        signed_in: moments.of(listed.signed_in_at),
        used: moments.of(listed.last_seen_at),
        name: t.device(listed.origin.agent),
        address: listed.origin.address.map(|address| address.to_string()),
        made: made_by(t, &found, &listed.id.to_string()),
    });
    let template = SessionsPage {
        t,
        title: &t.account.nav.sessions,
        stylesheet: STYLESHEET,
        frame: Frame::of(reader, AccountPage::Sessions, problem),
        browsers: browsers.collect(),
        more_browsers: found.more_browsers,
        clients: found.clients.iter().map(|client| client_shown(moments, &found, client, only)).collect(),
        part: cursor.is_some() || !matches!(only, Only::Everything),
        next: next_page(AccountPage::Sessions, &rest, found.next_cursor.as_deref()),
    };
    page(t, status, &template, None)
}

fn client_shown(moments: Moments<'_>, found: &Found, client: &ClientSessions, only: Only<'_>) -> ClientShown {
    let more = usize::try_from(client.total).is_ok_and(|total| total > client.sessions.len());
    let all = (more && matches!(only, Only::Everything)).then(|| {
        let id = utf8_percent_encode(&client.client.id, NON_ALPHANUMERIC);
        (client.total, format!("{}?client={id}", AccountPage::Sessions.path()))
    });
    let sessions = client.sessions.iter().map(|session| session_shown(moments, found, session)).collect();
    ClientShown { name: client.client.name.clone(), verified: client.name_verified, sessions, all }
}

fn session_shown(moments: Moments<'_>, found: &Found, session: &Session) -> SessionShown {
    let t = moments.t;
    let is_own = t.client(&session.client.id).is_some();
    let sentence = |word| if is_own { t.own_scope(word) } else { t.scope(word) };
    SessionShown {
        id: session.id.to_string(),
        created: moments.of(session.created_at),
        created_from: session.created_from.clone(),
        used: moments.of(session.last_used_at),
        used_from: session.last_used_from.clone(),
        may: session.scopes.words().map(|word| sentence(word).to_owned()).collect(),
        space: space_name(t, &found.workspaces, session.workspace_id),
        made: made_by(t, found, &session.id.to_string()),
    }
}

fn made_by(t: &Texts, found: &Found, actor: &str) -> Vec<String> {
    found.made.get(actor).into_iter().flatten().map(|made| made.spoken(t)).collect()
}
