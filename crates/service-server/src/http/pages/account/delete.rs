//! `/account/delete`: what becomes of an account and its workspaces, and closing it.

use askama::Template;
use axum::{Extension, extract::State, http::StatusCode, response::Response};
use service_rules::lifetimes;

use crate::{
    app::App,
    flows::{
        RequestMeta,
        account::deletion::{self, DeletionError, WorkspacesOfLeaver},
    },
    http::{
        errors::ApiError,
        pages::{
            STYLESHEET,
            account::{AccountPage, Frame, Reader, after_form, not_shown},
            forms::{FormOutcome, FormProblem, with_problem},
            page,
            request_browser::{Form, RequestBrowser, forget_cookie},
            see_other,
        },
    },
    locales::{Sentence, Texts},
};

#[derive(Template)]
#[template(path = "pages/account/delete.html")]
struct DeletePage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    frame: Frame<'a>,
    /// How long the user can still keep the account.
    waits: Sentence,
    workspaces: WorkspacesOfLeaver,
}

#[derive(Template)]
#[template(path = "pages/account_closed.html")]
struct AccountClosedPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    erased: Sentence,
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    delete_page(Reader::of(&app, &meta, &browser), None).await
}

/// Closes the account. The cookie of the browser no longer works then.
pub async fn delete(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    form: Form,
) -> Result<Response, ApiError> {
    let reader = Reader::of(&app, &meta, &form.browser);
    match deletion::request_from_browser(&app, &meta, &form.browser).await {
        Ok(closed) => {
            let t = app.locales.of(meta.language);
            let texts = &t.account.delete;
            let erased = texts.closed.with("date", t.moment(closed.erased_on));
            let template = AccountClosedPage { t, title: &texts.closed_title, stylesheet: STYLESHEET, erased };
            let mut response = page(t, StatusCode::OK, &template, None)?;
            forget_cookie(response.headers_mut());
            Ok(response)
        }
        Err(failure) => match after_form(reader, Err(failure), AccountPage::Security).await? {
            FormOutcome::Redirect(response) => Ok(response),
            FormOutcome::Problem(problem) => delete_page(reader, Some(problem)).await,
        },
    }
}

async fn delete_page(reader: Reader<'_>, problem: Option<FormProblem>) -> Result<Response, ApiError> {
    let Reader { app, browser, t, .. } = reader;
    let workspaces = match deletion::list_workspaces(app, browser).await {
        Ok(workspaces) => workspaces,
        Err(failure) => return not_shown(failure, AccountPage::Security),
    };
    let (status, problem) = with_problem(problem);
    let texts = &t.account.delete;
    let template = DeletePage {
        t,
        title: &texts.title,
        stylesheet: STYLESHEET,
        frame: Frame::of(reader, AccountPage::Security, problem),
        waits: texts.waits.with("wait", t.duration(lifetimes::ACCOUNT_DELETION)),
        workspaces,
    };
    page(t, status, &template, None)
}

/// What the page says about an account that was not closed.
pub(super) fn refused(t: &Texts, refusal: &DeletionError) -> FormProblem {
    let texts = &t.account.delete;
    match refusal {
        DeletionError::Limited(limited) => {
            let wait = t.duration(limited.retry_after.into());
            let text = texts.limited.with("wait", wait).to_string();
            FormProblem { status: StatusCode::TOO_MANY_REQUESTS, text }
        }
        _ => FormProblem { status: StatusCode::CONFLICT, text: texts.needed.to_string() },
    }
}
