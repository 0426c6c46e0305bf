//! The browser of a request, and the forms that it sends.

use axum::{
    extract::{FromRequest, FromRequestParts, Request},
    http::{HeaderMap, HeaderValue, header, request::Parts},
};
use service_api::token::{Session, Token};
use service_rules::lifetimes;

use crate::{
    app::App,
    flows::browser::{self, Browser},
    http::{
        body,
        error::ApiError,
        page_refusals::{foreign_form, unknown_browser},
    },
};

/// Only over TLS, only for this very host, and out of reach of scripts.
const COOKIE: &str = "__Host-session";

/// The browser that asks, if it was seen before.
pub struct Visitor(pub Option<Browser>);

impl FromRequestParts<App> for Visitor {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        Ok(Self(browser::find(app, cookie(&parts.headers)).await?))
    }
}

/// A form that a page of ours sent, in the browser that the page was made for.
pub struct Form {
    pub browser: Browser,
    pairs: Vec<(String, String)>,
}

impl Form {
    /// A field; empty if it is not there.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.pairs.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

impl FromRequest<App> for Form {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let (mut parts, _) = request.into_parts();
        if !is_from_us(&parts.headers, &app.config.base_url) {
            return Err(foreign_form());
        }
        let pairs = body::form_pairs(&mut parts).map_err(|_| foreign_form())?;
        let Visitor(browser) = Visitor::from_request_parts(&mut parts, app).await?;
        let form = Self { browser: browser.ok_or_else(unknown_browser)?, pairs };
        if form.browser.owns_form(app, form.get("csrf")) { Ok(form) } else { Err(foreign_form()) }
    }
}

/// What browsers say about where a form was sent from; one that says nothing has only the form's own token.
fn is_from_us(headers: &HeaderMap, base_url: &str) -> bool {
    let said = |name: &str| headers.get(name).map(HeaderValue::as_bytes);
    let site = said("sec-fetch-site").is_none_or(|site| site == b"same-origin");
    // Pages that send no referrer send no origin either.
    let origin = said("origin").is_none_or(|origin| origin == base_url.as_bytes() || origin == b"null");
    site && origin
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let mut found = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(name, _)| *name == COOKIE)
        .map(|(_, value)| value);
    // Of two nobody knows which is meant.
    found.next().filter(|_| found.next().is_none())
}

pub(super) fn set_cookie(headers: &mut HeaderMap, cookie: &Token<Session>) {
    let text = format!(
        "{COOKIE}={}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age={}",
        cookie.expose(),
        lifetimes::BROWSER_SESSION
    );
    if let Ok(mut value) = HeaderValue::from_str(&text) {
        value.set_sensitive(true);
        headers.append(header::SET_COOKIE, value);
    }
}

pub(super) fn forget_cookie(headers: &mut HeaderMap) {
    let text = format!("{COOKIE}=; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=0");
    if let Ok(value) = HeaderValue::from_str(&text) {
        headers.append(header::SET_COOKIE, value);
    }
}
