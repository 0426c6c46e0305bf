//! `/account/address`: the email address of the account, and changing it.

use askama::Template;
use axum::{Extension, extract::State, http::StatusCode, response::Response};
use service_api::address_change::AddressChange;

use crate::{
    app::App,
    flows::{
        RequestMeta,
        account::{
            AccountError,
            address_change::{self, AddressChangeError},
        },
    },
    http::{
        errors::ApiError,
        pages::{
            STYLESHEET,
            account::{AccountPage, Frame, Reader, after_form, not_shown},
            done::Done,
            forms::{FormOutcome, FormProblem, with_problem},
            page,
            request_browser::{Form, RequestBrowser},
            see_other,
        },
        query::Query,
    },
    locales::{Sentence, Text, Texts},
};

const PATH: &str = "/account/address";

#[derive(Template)]
#[template(path = "pages/account/address.html")]
struct ChangeAddressPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    frame: Frame<'a>,
    requested: Option<RequestedChange<'a>>,
    /// What the user entered, if it was not accepted.
    entered: String,
}

/// A change that is requested.
struct RequestedChange<'a> {
    address: String,
    by_current: &'a Text,
    by_new: &'a Text,
    /// When it is made, or until when it can be confirmed.
    when: Sentence,
}

impl<'a> RequestedChange<'a> {
    fn of(t: &'a Texts, change: AddressChange) -> Self {
        let texts = &t.account.address;
        let confirmed = |is_confirmed| if is_confirmed { &texts.confirmed } else { &texts.not_confirmed };
        let when = match change.changed_on {
            Some(at) => texts.changed_on.with("date", t.moment(at)),
            None => texts.expires.with("date", t.moment(change.expires_at)),
        };
        Self {
            address: change.email,
            by_current: confirmed(change.confirmed_by_current_address),
            by_new: confirmed(change.confirmed_by_new_address),
            when,
        }
    }
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    query: Query,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    address_page(Reader::of(&app, &meta, &browser).after(&query), String::new(), None).await
}

/// Requests a change.
pub async fn change(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    form: Form,
) -> Result<Response, ApiError> {
    let email = form.get("email");
    let requested = address_change::request_from_browser(&app, &meta, &form.browser, email).await;
    let reader = Reader::of(&app, &meta, &form.browser);
    after(reader, requested.map(|_| Done::AddressChangeRequested), email).await
}

/// Stops the change that is requested.
pub async fn stop(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    form: Form,
) -> Result<Response, ApiError> {
    let stopped = address_change::stop_from_browser(&app, &meta, &form.browser).await;
    let reader = Reader::of(&app, &meta, &form.browser);
    after(reader, stopped.map(|()| Done::AddressChangeStopped), "").await
}

/// The page with what was done or with a problem, or the page where the user has to sign in first.
async fn after(reader: Reader<'_>, done: Result<Done, AccountError>, entered: &str) -> Result<Response, ApiError> {
    let failure = match done {
        Ok(done) => return see_other(&format!("{PATH}?done={}", done.seal(reader.app, reader.browser)?)),
        Err(failure) => failure,
    };
    match after_form(reader, Err(failure), AccountPage::Overview).await? {
        FormOutcome::Redirect(response) => Ok(response),
        FormOutcome::Problem(problem) => address_page(reader, entered.to_owned(), Some(problem)).await,
    }
}

async fn address_page(reader: Reader<'_>, entered: String, problem: Option<FormProblem>) -> Result<Response, ApiError> {
    let Reader { app, browser, t, .. } = reader;
    let requested = match address_change::read_from_browser(app, browser).await {
        Ok(requested) => requested,
        Err(failure) => return not_shown(failure, AccountPage::Overview),
    };
    let (status, problem) = with_problem(problem);
    let template = ChangeAddressPage {
        t,
        title: &t.account.address.title,
        stylesheet: STYLESHEET,
        frame: Frame::of(reader, AccountPage::Overview, problem),
        requested: requested.map(|change| RequestedChange::of(t, change)),
        entered,
    };
    page(t, status, &template, None)
}

/// What the page says about a change that was not requested.
pub(super) fn refused(t: &Texts, refusal: &AddressChangeError) -> FormProblem {
    let texts = &t.account.address;
    let (status, text) = match refusal {
        AddressChangeError::Limited(limited) => {
            let wait = t.duration(limited.retry_after.into());
            (StatusCode::TOO_MANY_REQUESTS, texts.limited.with("wait", wait).to_string())
        }
        AddressChangeError::SsoRequired(domain) => (StatusCode::CONFLICT, texts.sso.with("domain", domain).to_string()),
        AddressChangeError::Same => (StatusCode::BAD_REQUEST, texts.same.to_string()),
        _ => (StatusCode::BAD_REQUEST, t.sign_in.invalid_email.to_string()),
    };
    FormProblem { status, text }
}
