//! `/account`: the pages on which a user manages their account. One file a page; what they share is here.

pub mod activity;
pub mod address;
pub mod apps;
pub mod data;
pub mod delete;
pub mod overview;
pub mod secure;
pub mod security;
pub mod sessions;
mod token_form;
pub mod tokens;
pub mod workspaces;

use std::collections::BTreeMap;

use axum::{
    Extension,
    extract::State,
    http::{HeaderValue, StatusCode},
    response::Response,
};
use service_api::{audit_events::EventName, ids::WorkspaceId};

use crate::{
    app::App,
    flows::{
        RequestMeta,
        account::{self, AccountError},
        audit::named_events::NamedEvent,
        oauth::authorize,
        sign_in::browser_session::Browser,
    },
    http::{
        errors::{ApiError, api, pages::PageProblem},
        pages::{
            Moments, When,
            done::Done,
            forms::{FormOutcome, FormProblem},
            request_browser::{Form, forget_cookie},
            see_other,
        },
        query::Query,
    },
    locales::{Text, Texts},
};

/// The pages, in the order in which the navigation lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum AccountPage {
    Overview,
    Security,
    Sessions,
    Apps,
    Tokens,
    Workspaces,
    Activity,
}

impl AccountPage {
    const ALL: [Self; 7] =
        [Self::Overview, Self::Security, Self::Sessions, Self::Apps, Self::Tokens, Self::Workspaces, Self::Activity];

    const fn path(self) -> &'static str {
        match self {
            Self::Overview => "/account",
            Self::Security => "/account/security",
            Self::Sessions => "/account/sessions",
            Self::Apps => "/account/apps",
            Self::Tokens => "/account/tokens",
            Self::Workspaces => "/account/workspaces",
            Self::Activity => "/account/activity",
        }
    }

    const fn name(self, texts: &Texts) -> &Text {
        let nav = &texts.account.nav;
        match self {
            Self::Overview => &nav.overview,
            Self::Security => &nav.security,
            Self::Sessions => &nav.sessions,
            Self::Apps => &nav.apps,
            Self::Tokens => &nav.tokens,
            Self::Workspaces => &nav.workspaces,
            Self::Activity => &nav.activity,
        }
    }
}

/// The user of a browser, in the language that they read.
#[derive(Clone, Copy)]
struct Reader<'a> {
    app: &'a App,
    meta: &'a RequestMeta,
    browser: &'a Browser,
    t: &'a Texts,
    /// The sealed message about the form that led here.
    done: Option<&'a str>,
}

impl<'a> Reader<'a> {
    fn of(app: &'a App, meta: &'a RequestMeta, browser: &'a Browser) -> Self {
        Self { app, meta, browser, t: app.locales.of(meta.language), done: None }
    }

    /// The user of a page whose address may have a message.
    fn after(self, query: &'a Query) -> Self {
        Self { done: query.get("done"), ..self }
    }

    fn moments(self) -> Moments<'a> {
        Moments::now(self.app, self.t)
    }
}

/// A link of the navigation.
struct NavigationLink<'a> {
    href: &'static str,
    name: &'a Text,
    current: bool,
}

/// What every account page shows around its own content.
struct Frame<'a> {
    csrf: String,
    email: String,
    /// The address of the page.
    path: &'static str,
    links: Vec<NavigationLink<'a>>,
    /// What went wrong with the form that was sent.
    problem: Option<String>,
    /// What the form did that led here.
    done: Option<String>,
}

impl<'a> Frame<'a> {
    fn of(reader: Reader<'a>, here: AccountPage, problem: Option<String>) -> Self {
        let Reader { app, browser, t, .. } = reader;
        let link = |page: AccountPage| NavigationLink { href: page.path(), name: page.name(t), current: page == here };
        Self {
            csrf: browser.form_token(app),
            email: browser.person.as_ref().map(|person| person.email.clone()).unwrap_or_default(),
            path: here.path(),
            links: AccountPage::ALL.map(link).into(),
            problem,
            done: reader.done.and_then(|sealed| Done::open(app, browser, sealed)).map(|done| done.text(t)),
        }
    }
}

/// Where a browser goes whose page cannot be shown: to sign in, or to the beginning of the list.
fn not_shown(error: AccountError, here: AccountPage) -> Result<Response, ApiError> {
    match error {
        AccountError::InvalidCursor(_) | AccountError::NotFound => see_other(here.path()),
        AccountError::NotSignedIn
        | AccountError::SignInTooOld
        | AccountError::Token(_)
        | AccountError::Passkey(_)
        | AccountError::Export(_)
        | AccountError::Address(_)
        | AccountError::PasskeyRequirement(_)
        | AccountError::Deletion(_)
        | AccountError::Profile(_) => see_other("/sign-in"),
        AccountError::Database(broken) => Err(broken.into()),
        AccountError::Defect(broken) => Err(broken.into()),
    }
}

/// Decides what a browser gets after a form.
async fn after_form(
    reader: Reader<'_>,
    done: Result<Done, AccountError>,
    here: AccountPage,
) -> Result<FormOutcome, ApiError> {
    let Reader { app, meta, browser, t, .. } = reader;
    match done {
        Ok(done) => {
            let message = done.seal(app, browser)?;
            see_other(&format!("{}?done={message}", here.path())).map(FormOutcome::Redirect)
        }
        Err(AccountError::NotSignedIn) => see_other("/sign-in").map(FormOutcome::Redirect),
        Err(AccountError::SignInTooOld) => {
            let flow = authorize::open_flow(app, meta, browser, authorize::SignInPurpose::Account).await?;
            see_other(&format!("/sign-in/{}", flow.id)).map(FormOutcome::Redirect)
        }
        Err(AccountError::NotFound | AccountError::InvalidCursor(_)) => {
            let text = if here == AccountPage::Sessions { &t.account.session_gone } else { &t.account.gone };
            Ok(FormOutcome::Problem(FormProblem { status: StatusCode::NOT_FOUND, text: text.to_string() }))
        }
        Err(AccountError::Token(refusal)) => {
            let text = tokens::refused(t, &refusal);
            let status = api::cli_tokens(refusal, &app.config.base_url).status();
            Ok(FormOutcome::Problem(FormProblem { status, text }))
        }
        Err(AccountError::PasskeyRequirement(refusal)) => {
            Ok(FormOutcome::Problem(security::requirement_refused(t, &refusal)))
        }
        Err(AccountError::Address(refusal)) => Ok(FormOutcome::Problem(address::refused(t, &refusal))),
        Err(AccountError::Deletion(refusal)) => Ok(FormOutcome::Problem(delete::refused(t, &refusal))),
        Err(AccountError::Profile(refusal)) => Ok(FormOutcome::Problem(overview::refused(t, &refusal))),
        Err(AccountError::Export(refusal)) => Ok(FormOutcome::Problem(data::refused(t, &refusal))),
        Err(AccountError::Passkey(refusal)) => Ok(FormOutcome::Problem(security::refused(t, refusal))),
        Err(AccountError::Database(broken)) => Err(broken.into()),
        Err(AccountError::Defect(broken)) => Err(broken.into()),
    }
}

pub async fn sign_out(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    form: Result<Form, ApiError>,
) -> Result<Response, ApiError> {
    let form = form.map_err(|refused| match refused.problem() {
        Some(PageProblem::UnknownBrowser) => refused.on_page(PageProblem::SignedOut),
        _ => refused,
    })?;
    account::sign_out(&app, &meta, &form.browser).await?;
    signed_out()
}

/// To the sign-in page, without a cookie.
fn signed_out() -> Result<Response, ApiError> {
    let mut response = see_other("/sign-in")?;
    forget_cookie(response.headers_mut());
    // Not "cookies": that would clear the device's, and those of other services under our domain.
    let clear = HeaderValue::from_static("\"cache\", \"storage\"");
    response.headers_mut().insert("clear-site-data", clear);
    Ok(response)
}

/// What a page calls a space.
fn space_name(texts: &Texts, workspaces: &BTreeMap<WorkspaceId, String>, id: Option<WorkspaceId>) -> String {
    match id {
        None => texts.spaces.personal.to_string(),
        Some(id) => workspaces.get(&id).cloned().unwrap_or_else(|| texts.spaces.former.to_string()),
    }
}

/// The address of the next page of a list.
fn next_page(here: AccountPage, rest: &str, cursor: Option<&str>) -> Option<String> {
    // A cursor is written in letters that need no escape.
    cursor.map(|cursor| format!("{}?{rest}cursor={cursor}", here.path()))
}

/// An event, in words.
struct EventShown {
    at: When,
    what: String,
    address: Option<String>,
}

impl EventShown {
    fn of(moments: Moments<'_>, event: &NamedEvent) -> Self {
        let texts = moments.t;
        let NamedEvent { event, name, role } = event;
        // For a change of role, the new role says more than the workspace.
        let role = role.filter(|_| event.event == EventName::RoleChanged.as_str()).map(|role| &**texts.role(role));
        let name = role.or(name.as_deref());
        Self { at: moments.of(event.at), what: texts.event(event, name), address: event.address.clone() }
    }
}
