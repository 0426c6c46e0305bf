//! `/account/apps`: the apps of others that the person let into their account.

use askama::Template;
use axum::{Extension, extract::State, response::Response};
use service_api::consents::Consent;

use crate::{
    app::App,
    flows::{
        RequestMeta,
        account::{self, AccountError, apps::Apps as Found},
    },
    http::{
        errors::ApiError,
        pages::{
            Moments, STYLESHEET, When,
            account::{AccountPage, Frame, Reader, after_form, next_page, not_shown, space_name},
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
#[template(path = "pages/account/apps.html")]
struct AppsPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    frame: Frame<'a>,
    apps: Vec<AppShown>,
    later_page: bool,
    next: Option<String>,
}

struct AppShown {
    id: String,
    name: String,
    verified: bool,
    host: String,
    /// What it may do, one sentence a scope.
    may: Vec<String>,
    space: String,
    granted: When,
    expires: Option<When>,
    used: When,
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    query: Query,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    apps_page(Reader::of(&app, &meta, &browser).after(&query), query.get("cursor"), None).await
}

/// Asks before an app loses its access.
pub async fn confirm_withdraw(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    let reader = Reader::of(&app, &meta, &browser);
    let texts = &reader.t.account;
    match account::apps::find_name(&app, &browser, &id).await {
        Ok(name) => {
            let question = Question {
                title: reader.t.confirm.remove_app.with("name", name).to_string(),
                text: reader.t.confirm.remove_app_text.to_string(),
                action: format!("/account/apps/{id}/remove"),
                button: &texts.apps.remove,
                back: AccountPage::Apps.path().to_owned(),
                ..Question::default()
            };
            question.show(&app, &browser, reader.t)
        }
        Err(failure) => answer(reader, Err(failure)).await,
    }
}

pub async fn withdraw(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let done = account::apps::withdraw(&app, &meta, &form.browser, &id).await.map(Done::AppRemoved);
    let reader = Reader::of(&app, &meta, &form.browser);
    answer(reader, done).await
}

/// The response to a form of this page.
async fn answer(reader: Reader<'_>, done: Result<Done, AccountError>) -> Result<Response, ApiError> {
    match after_form(reader, done, AccountPage::Apps).await? {
        FormOutcome::Redirect(response) => Ok(response),
        FormOutcome::Problem(problem) => apps_page(reader, None, Some(problem)).await,
    }
}

async fn apps_page(
    reader: Reader<'_>,
    cursor: Option<&str>,
    problem: Option<FormProblem>,
) -> Result<Response, ApiError> {
    let Reader { app, browser, t, .. } = reader;
    let found = match account::apps::list(app, browser, cursor).await {
        Ok(found) => found,
        Err(failure) => return not_shown(failure, AccountPage::Apps),
    };
    let (status, problem) = with_problem(problem);
    let template = AppsPage {
        t,
        title: &t.account.nav.apps,
        stylesheet: STYLESHEET,
        frame: Frame::of(reader, AccountPage::Apps, problem),
        apps: found.consents.data.iter().map(|consent| shown(reader.moments(), &found, consent)).collect(),
        later_page: cursor.is_some(),
        next: next_page(AccountPage::Apps, "", found.consents.next_cursor.as_deref()),
    };
    page(t, status, &template, None)
}

fn shown(moments: Moments<'_>, found: &Found, consent: &Consent) -> AppShown {
    let t = moments.t;
    AppShown {
        id: consent.id.to_string(),
        name: consent.client.name.clone(),
        verified: consent.client.verified,
        host: consent.redirect_host.clone(),
        may: consent.scopes.words().map(|word| t.scope(word).to_owned()).collect(),
        space: space_name(t, &found.workspaces, consent.workspace_id),
        granted: moments.of(consent.granted_at),
        expires: consent.expires_at.map(|at| moments.of(at)),
        used: moments.of(consent.last_used_at),
    }
}
