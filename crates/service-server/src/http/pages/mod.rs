//! The pages that people see: no scripts, one stylesheet, and headers that let nobody put them into theirs.

pub mod account;
pub mod authorize;
pub mod consent;
pub mod manual;
pub mod problem;
pub mod sign_in;
mod visitor;

use askama::Template;
use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use service_rules::redirect;

use crate::{
    flows::browser::Browser,
    http::{error::ApiError, pages::visitor::set_cookie},
};

/// The stylesheet, and where it is.
const STYLE: &str = include_str!("../../../assets/style.css");
pub const STYLESHEET: &str = "/assets/style.css";

pub async fn stylesheet() -> impl IntoResponse {
    style(STYLE)
}

fn style(text: &'static str) -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, "text/css; charset=utf-8"),
        (header::CACHE_CONTROL, "public, max-age=3600"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    (headers, text)
}

/// A page. Its forms lead to us, and through us to `leads_to` if that is where the answer of a client goes.
fn page(status: StatusCode, template: &impl Template, leads_to: Option<&str>) -> Result<Response, ApiError> {
    let text = template.render().map_err(|error| anyhow::anyhow!("a page cannot be written: {error}"))?;
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let source = leads_to.map(|uri| format!(" {}", redirect::policy_source(uri))).unwrap_or_default();
    let policy = format!(
        "default-src 'none'; style-src 'self'; form-action 'self'{source}; frame-ancestors 'none'; base-uri 'none'"
    );
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=63072000; includeSubDomains"));
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

/// The same response, with the browser's new cookie if it has one.
fn with_cookie(mut response: Response, browser: &Browser) -> Response {
    if let Some(cookie) = &browser.new_cookie {
        set_cookie(response.headers_mut(), cookie);
    }
    response
}

/// A moment, for people and for programs.
pub struct When {
    pub iso: String,
    pub text: String,
}

impl When {
    fn of(at: service_api::Timestamp) -> Self {
        Self { iso: service_api::instant::to_text(at), text: at.strftime("%-d %B %Y, %H:%M UTC").to_string() }
    }
}

/// A space that can be chosen.
pub struct Choice {
    pub value: String,
    pub name: String,
    pub checked: bool,
}
