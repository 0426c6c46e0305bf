//! `/account`: how much of everything there is, where to look after it, what happened last, and the user's name.

use askama::Template;
use axum::{Extension, extract::State, http::StatusCode, response::Response};
use service_api::account::MAX_NAME;
use service_rules::person_name::PersonNameError;

use crate::{
    app::App,
    flows::{
        RequestMeta,
        account::{
            self,
            profile::{self, ProfileError},
        },
    },
    http::{
        errors::ApiError,
        pages::{
            STYLESHEET,
            account::{AccountPage, EventShown, Frame, Reader, after_form, not_shown},
            done::Done,
            forms::{FormOutcome, FormProblem, refused_name, with_problem},
            page,
            received_invitation::InvitationShown,
            request_browser::{Form, RequestBrowser},
            see_other,
        },
        query::Query,
    },
    locales::{Sentence, Text, Texts},
};

#[derive(Template)]
#[template(path = "pages/account/overview.html")]
struct Overview<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    frame: Frame<'a>,
    parts: Vec<Part<'a>>,
    invitations: Vec<InvitationShown>,
    events: Vec<EventShown>,
    /// What is said about a change of the address that is requested.
    address_change: Option<Sentence>,
    /// The name of the user, or what the user entered instead.
    name: String,
    max_name: usize,
}

/// A part of the account, with a link to its page.
struct Part<'a> {
    href: &'static str,
    name: &'a Text,
    text: String,
}

/// A name that was not accepted, and why.
struct RefusedName<'a> {
    name: &'a str,
    problem: FormProblem,
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    query: Query,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    overview_page(Reader::of(&app, &meta, &browser).after(&query), None).await
}

/// Changes the user's name.
pub async fn rename(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    form: Form,
) -> Result<Response, ApiError> {
    let reader = Reader::of(&app, &meta, &form.browser);
    let name = form.get("name");
    let renamed = profile::rename_from_browser(&app, &meta, &form.browser, name).await;
    let done = renamed.map(|account| account.name.map_or(Done::NameRemoved, Done::Renamed));
    match after_form(reader, done, AccountPage::Overview).await? {
        FormOutcome::Redirect(response) => Ok(response),
        FormOutcome::Problem(problem) => overview_page(reader, Some(RefusedName { name, problem })).await,
    }
}

async fn overview_page(reader: Reader<'_>, refused: Option<RefusedName<'_>>) -> Result<Response, ApiError> {
    let Reader { app, browser, t, .. } = reader;
    let overview = match account::overview(app, browser).await {
        Ok(overview) => overview,
        Err(failure) => return not_shown(failure, AccountPage::Overview),
    };
    let (entered, problem) = refused.map(|refused| (refused.name, refused.problem)).unzip();
    let (status, problem) = with_problem(problem);
    let counted = &t.account.overview;
    let part =
        |here: AccountPage, text: Sentence| Part { href: here.path(), name: here.name(t), text: text.to_string() };
    let (browsers, sessions) = (counted.browsers.count(overview.browsers), counted.sessions.count(overview.sessions));
    let parts = vec![
        part(AccountPage::Security, counted.passkeys.count(overview.passkeys)),
        part(AccountPage::Sessions, counted.both.with("browsers", browsers).with("sessions", sessions)),
        part(AccountPage::Apps, counted.apps.count(overview.apps)),
        part(AccountPage::Tokens, counted.tokens.count(overview.tokens)),
        part(AccountPage::Workspaces, counted.workspaces.count(overview.workspaces)),
    ];
    let moments = reader.moments();
    let template = Overview {
        t,
        title: &t.account.title,
        stylesheet: STYLESHEET,
        frame: Frame::of(reader, AccountPage::Overview, problem),
        parts,
        invitations: overview.invitations.iter().map(|invitation| InvitationShown::of(moments, invitation)).collect(),
        events: overview.events.iter().map(|event| EventShown::of(moments, event)).collect(),
        address_change: overview.new_address.map(|email| t.account.address.pending.with("email", email)),
        name: entered.map(str::to_owned).or(overview.name).unwrap_or_default(),
        max_name: MAX_NAME,
    };
    page(t, status, &template, None)
}

/// What the page says about a name that was not changed.
pub(super) fn refused(t: &Texts, refusal: &ProfileError) -> FormProblem {
    let text = match refusal {
        ProfileError::Limited(limited) => {
            let wait = t.duration(limited.retry_after.into());
            let text = t.workspace.limited.with("wait", wait).to_string();
            return FormProblem { status: StatusCode::TOO_MANY_REQUESTS, text };
        }
        ProfileError::Name(PersonNameError::Address) => t.account.overview.name_address.to_string(),
        ProfileError::Name(PersonNameError::Name(refusal)) => refused_name(t, *refusal),
        // Callers answer these in another way.
        ProfileError::SessionEnded | ProfileError::Database(_) | ProfileError::Defect(_) => t.account.gone.to_string(),
    };
    FormProblem { status: StatusCode::BAD_REQUEST, text }
}
