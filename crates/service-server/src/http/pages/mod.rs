//! The pages that people see: one stylesheet, a script only where passkeys are used, and headers that forbid other sites to
//! embed them.

pub mod account;
pub mod address_link;
pub mod authorize;
mod confirm;
pub mod confirmation;
pub mod consent;
mod done;
mod forms;
mod hand_off;
pub mod invitations;
pub mod keep_account;
pub mod manual;
pub mod passkey_sign_in;
pub mod problem;
mod received_invitation;
pub mod request_browser;
mod script;
pub mod sign_in;
pub mod sign_in_report;
pub mod sso;
mod sso_problem;
pub mod unmatched;
pub mod workspace;

use askama::Template;
use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use service_rules::redirect;

use crate::{
    app::App,
    flows::sign_in::browser_session::Browser,
    http::{
        errors::{self, ApiError},
        pages::request_browser::{set_cookie, set_device_cookie},
    },
    locales::Texts,
};

/// Where the stylesheet is.
pub const STYLESHEET: &str = "/assets/style.css";
/// What the logo may do where it is opened by itself: an SVG can hold scripts, and would run them as a page of ours.
const LOGO_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox";

pub async fn stylesheet(State(app): State<App>) -> impl IntoResponse {
    style(app.stylesheet.clone())
}

/// The icon that browsers show in tabs and bookmarks.
pub async fn icon() -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, "image/svg+xml"),
        (header::CACHE_CONTROL, "public, max-age=86400"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    (headers, include_str!("../../../assets/icon.svg"))
}

/// Crawlers find nothing here but the manual.
pub async fn robots() -> impl IntoResponse {
    let headers =
        [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::CACHE_CONTROL, "public, max-age=86400")];
    (headers, "User-agent: *\nAllow: /docs\nDisallow: /\n")
}

/// The operator's logo.
pub async fn logo(State(app): State<App>) -> Result<Response, ApiError> {
    let Some(logo) = &app.config.brand.logo else { return Err(errors::not_found()) };
    let headers = [
        (header::CONTENT_TYPE, logo.media_type),
        (header::CACHE_CONTROL, "public, max-age=3600"),
        (header::CONTENT_SECURITY_POLICY, LOGO_POLICY),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    Ok((headers, logo.bytes.clone()).into_response())
}

fn style(text: Bytes) -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, "text/css; charset=utf-8"),
        (header::CACHE_CONTROL, "public, max-age=3600"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    (headers, text)
}

/// A page in the language of `texts`. Its forms lead to us, and through us to `leads_to` if that is where the answer of a
/// client goes.
fn page(
    texts: &Texts,
    status: StatusCode,
    template: &impl Template,
    leads_to: Option<&str>,
) -> Result<Response, ApiError> {
    let text = template.render().map_err(|error| anyhow::anyhow!("a page cannot be written: {error}"))?;
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let source = leads_to.map(|uri| format!(" {}", redirect::policy_source(uri))).unwrap_or_default();
    let policy = format!(
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'{source}; frame-ancestors 'none'; base-uri 'none'"
    );
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    if let Ok(language) = HeaderValue::from_str(&texts.tag) {
        headers.insert(header::CONTENT_LANGUAGE, language);
    }
    headers.insert(header::VARY, HeaderValue::from_static("accept-language"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    Ok(response)
}

/// Somewhere else, by a request of its own that carries nothing along.
fn see_other(location: &str) -> Result<Response, ApiError> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let location = HeaderValue::from_str(location).map_err(|_| anyhow::anyhow!("a location cannot be sent"))?;
    response.headers_mut().insert(header::LOCATION, location);
    response.headers_mut().insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Ok(response)
}

/// Adds the browser's new cookies to a response, if it has any.
fn with_cookie(mut response: Response, browser: &Browser) -> Response {
    if let Some(cookie) = &browser.new_cookie {
        set_cookie(response.headers_mut(), cookie);
    }
    if let Some(device) = &browser.new_device {
        set_device_cookie(response.headers_mut(), device);
    }
    response
}

/// A moment, for people and for programs.
pub struct When {
    pub iso: String,
    pub text: String,
    /// The instant in full, where `text` is told from now.
    pub title: String,
}

/// How a page tells moments: from the time at which it is shown.
#[derive(Clone, Copy)]
struct Moments<'a> {
    t: &'a Texts,
    now: service_api::Timestamp,
}

impl<'a> Moments<'a> {
    /// Moments for a page that is shown now.
    fn now(app: &App, t: &'a Texts) -> Self {
        Self { t, now: app.clock.now() }
    }

    fn of(self, at: service_api::Timestamp) -> When {
        When {
            iso: service_api::instant::to_text(at),
            text: self.t.relative_time(at, self.now),
            title: self.t.moment(at),
        }
    }
}

/// A space that can be chosen.
pub struct Choice {
    pub value: String,
    pub name: String,
    /// The email address of a workspace's owner; personal space has none.
    pub owner: Option<String>,
    pub checked: bool,
}
