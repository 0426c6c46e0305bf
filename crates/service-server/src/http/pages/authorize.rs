//! `/oauth/authorize`: where apps send users.

use axum::{
    Extension,
    extract::{Request, State},
    http::StatusCode,
    response::Response,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use service_rules::authorization::Parameters;

use crate::{
    app::App,
    flows::{
        RequestMeta,
        oauth::authorize::{self, Next},
        sign_in::browser_session::Browser,
    },
    http::{
        body,
        errors::{ApiError, MalformedRequest},
        pages::{
            problem::{Link, Problem, to_account},
            request_browser::{Navigation, RequestBrowser},
            see_other, with_cookie, workspace,
        },
        query,
    },
    locales::Texts,
};

pub async fn by_query(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    _: Navigation,
    request_browser: RequestBrowser,
    request: Request,
) -> Result<Response, ApiError> {
    let pairs = query::pairs(request.uri().query().unwrap_or_default());
    let pairs = pairs
        .ok_or_else(|| MalformedRequest::Query("The query cannot be decoded. Check its percent-encoding.".into()))?;
    let begun = authorize::begin(&app, &meta, request_browser.0, &Parameters(&pairs)).await?;
    go_on(&app, &meta, begun.browser.as_ref(), begun.next)
}

/// An authorization request that was sent as a form. It is redirected to an address, because a form from elsewhere brings
/// no cookie along.
pub async fn by_form(request: Request) -> Result<Response, ApiError> {
    let (mut parts, _) = request.into_parts();
    let pairs = body::form_pairs(&mut parts)?;
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let written: Vec<_> = pairs.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    see_other(&format!("/oauth/authorize?{}", written.join("&")))
}

/// Sends the browser to wherever its flow is.
pub(super) fn go_on(
    app: &App,
    meta: &RequestMeta,
    browser: Option<&Browser>,
    next: Next,
) -> Result<Response, ApiError> {
    let response = match next {
        Next::SignIn(id) => see_other(&format!("/sign-in/{id}"))?,
        Next::Prompt(id) => see_other(&format!("/consent/{id}"))?,
        Next::Account => see_other("/account")?,
        Next::Workspace(place) => see_other(&workspace::path_of(place))?,
        Next::Redirect(location) => see_other(&location)?,
        Next::OfferRedirect { location, host, error } => {
            let texts = app.locales.of(meta.language);
            offer(texts, location.as_deref(), &host, error.description(), &meta.request_id)?
        }
    };
    Ok(match browser {
        Some(browser) => with_cookie(response, browser),
        None => response,
    })
}

/// The app's request was refused. The user decides whether the app at `host` learns of it.
fn offer(
    texts: &Texts,
    location: Option<&str>,
    host: &str,
    refused: &str,
    request_id: &str,
) -> Result<Response, ApiError> {
    let t = &texts.problem;
    let (trust, back) =
        (t.request_trust.with("host", host).to_string(), t.request_return.with("host", host).to_string());
    let problem = Problem {
        heading: &t.request,
        text: &t.request_next,
        detail: Some(refused),
        next: if location.is_some() { &trust } else { "" },
        link: Some(location.map_or_else(|| to_account(texts), |href| Link { href, text: &back })),
        other: None,
    };
    problem.show(texts, StatusCode::BAD_REQUEST, request_id)
}
