//! `/keep-account`: the page behind the link that keeps an account which its user closed. It shows when the account is erased; its
//! form opens it again.

use askama::Template;
use axum::{Extension, extract::State, http::StatusCode, response::Response};
use service_api::endpoints;

use crate::{
    app::App,
    flows::{
        RequestMeta,
        account::deletion::{ClosedAccount, keep},
    },
    http::{
        errors::ApiError,
        pages::{STYLESHEET, page, request_browser::LinkForm, see_other},
        query::Query,
    },
    locales::{Sentence, Texts},
};

#[derive(Template)]
#[template(path = "pages/keep_account.html")]
struct KeepAccountPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    /// When the account is erased.
    erased: Sentence,
    token: &'a str,
}

#[derive(Template)]
#[template(path = "pages/account_kept.html")]
struct AccountKeptPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
}

/// Leads a user who signed in to a closed account to the page.
pub(super) fn lead_to(account: &ClosedAccount) -> Result<Response, ApiError> {
    // The link is a secret, though one that authenticates no user.
    see_other(&format!("{}?token={}", endpoints::KEEP_ACCOUNT_PAGE.path, account.link.expose()))
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    query: Query,
) -> Result<Response, ApiError> {
    let token = query.get("token").unwrap_or_default();
    let erased_on = keep::find(&app, token).await?;
    let t = app.locales.of(meta.language);
    let erased = t.keep_account.erased.with("date", t.moment(erased_on));
    let title = &t.keep_account.title;
    page(t, StatusCode::OK, &KeepAccountPage { t, title, stylesheet: STYLESHEET, erased, token }, None)
}

/// Opens the account again.
pub async fn keep(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    form: LinkForm,
) -> Result<Response, ApiError> {
    keep::keep(&app, &meta, form.get("token")).await?;
    let t = app.locales.of(meta.language);
    let title = &t.keep_account.kept_title;
    page(t, StatusCode::OK, &AccountKeptPage { t, title, stylesheet: STYLESHEET }, None)
}
