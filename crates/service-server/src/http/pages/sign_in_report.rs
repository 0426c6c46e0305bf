//! `/sign-in-report`: the page behind the link in a mail about a new sign-in. It shows the sign-in; its form revokes it.

use askama::Template;
use axum::{Extension, extract::State, http::StatusCode, response::Response};

use crate::{
    app::App,
    flows::{
        RequestMeta,
        account::{
            reported_sign_in::{self, ReportedSignIn},
            sessions::SessionKind,
        },
    },
    http::{
        errors::ApiError,
        pages::{STYLESHEET, page, request_browser::LinkForm},
        query::Query,
    },
    locales::{Sentence, Texts},
};

#[derive(Template)]
#[template(path = "pages/sign_in_report.html")]
struct SignInReportPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    /// Who signed in, and when.
    happened: Sentence,
    /// How much the session created that still works. Programs that scan mails open links too, so the page names nothing.
    made: Option<Sentence>,
    token: &'a str,
}

#[derive(Template)]
#[template(path = "pages/sign_in_reported.html")]
struct SignInReportedPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    query: Query,
) -> Result<Response, ApiError> {
    let token = query.get("token").unwrap_or_default();
    let found = reported_sign_in::find(&app, token).await?;
    let t = app.locales.of(meta.language);
    let made = found.session.as_ref().map_or(0, |session| session.made.len());
    let made = (made > 0).then(|| t.sign_in_report.made.count(i64::try_from(made).unwrap_or(i64::MAX)));
    let happened = happened(t, &found);
    let title = &t.sign_in_report.title;
    page(t, StatusCode::OK, &SignInReportPage { t, title, stylesheet: STYLESHEET, happened, made, token }, None)
}

fn happened(t: &Texts, found: &ReportedSignIn) -> Sentence {
    let date = t.moment(found.at);
    match found.session.as_ref().map(|session| &session.kind) {
        None => t.sign_in_report.ended.with("date", date),
        Some(SessionKind::Browser(browser)) => {
            t.sign_in_report.happened.with("name", t.device(browser.origin.agent)).with("date", date)
        }
        Some(SessionKind::Client { name }) => t.sign_in_report.happened.with("name", name).with("date", date),
    }
}

/// Revokes the sign-in.
pub async fn revoke(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    form: LinkForm,
) -> Result<Response, ApiError> {
    reported_sign_in::revoke(&app, &meta, form.get("token")).await?;
    let t = app.locales.of(meta.language);
    let title = &t.sign_in_report.done_title;
    page(t, StatusCode::OK, &SignInReportedPage { t, title, stylesheet: STYLESHEET }, None)
}
