//! The browser of a request, and the forms that it sends.

use axum::{
    extract::{FromRequest, FromRequestParts, Request},
    http::{HeaderMap, HeaderValue, Method, header, request::Parts},
};
use service_api::token::{BrowserSession, DeviceSecret, PresentedToken, Token};
use service_rules::lifetimes;

use crate::{
    app::App,
    flows::sign_in::browser_session::{self, Browser},
    http::{
        body,
        errors::{
            ApiError,
            pages::{foreign_form, not_a_navigation, unknown_browser},
        },
    },
};

/// Only over TLS, only for this very host, and out of reach of scripts.
const COOKIE: &str = "__Host-session";
/// Names the device, for its limits. It stays when the person signs out.
const DEVICE_COOKIE: &str = "__Host-device";

/// The browser that asks, if it was seen before.
pub struct RequestBrowser(pub Option<Browser>);

impl FromRequestParts<App> for RequestBrowser {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        Ok(Self(browser_session::find(app, cookie(&parts.headers, COOKIE)).await?))
    }
}

/// A request by which a browser goes to a page: a person follows a link, types an address, or is sent here. Pictures,
/// scripts, frames, background requests and prefetching are refused, and so is `HEAD`, because they would begin sign-ins
/// and use up the limits of the network without a user's intent. Callers that say nothing about themselves pass.
pub struct Navigation;

impl FromRequestParts<App> for Navigation {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        let said = |name: &str| parts.headers.get(name).map(HeaderValue::as_bytes);
        // Browsers send both. A program that sends only the mode is no browser in which a user visits another page.
        let navigates = said("sec-fetch-dest").is_none_or(|destination| {
            destination == b"document" && said("sec-fetch-mode").is_none_or(|mode| mode == b"navigate")
        });
        let navigates = navigates && !said("sec-purpose").is_some_and(|purpose| purpose.starts_with(b"prefetch"));
        if parts.method != Method::HEAD && navigates { Ok(Self) } else { Err(not_a_navigation()) }
    }
}

/// The fields of a form that a page of ours sent.
struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads them, unless the browser says that another site sent them.
    fn read(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        if !is_from_us(&parts.headers, &app.config.base_url) {
            return Err(foreign_form());
        }
        body::form_pairs(parts).map(Self).map_err(|_| foreign_form())
    }

    /// A field; empty if it is not there.
    fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// A form that a page of ours sent, in the browser that the page was made for.
pub struct Form {
    pub browser: Browser,
    fields: Fields,
}

impl Form {
    /// A field; empty if it is not there.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.fields.get(name)
    }

    /// What follows `prefix` in the names of the fields that begin so.
    pub fn names_after<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields.0.iter().filter_map(move |(name, _)| name.strip_prefix(prefix))
    }
}

impl FromRequest<App> for Form {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let (mut parts, _) = request.into_parts();
        let fields = Fields::read(&mut parts, app)?;
        let RequestBrowser(browser) = RequestBrowser::from_request_parts(&mut parts, app).await?;
        let form = Self { browser: browser.ok_or_else(unknown_browser)?, fields };
        if form.browser.owns_form(app, form.get("csrf")) { Ok(form) } else { Err(foreign_form()) }
    }
}

/// A form of a page that is behind a link with a secret, in any browser. It acts by the secret in its fields and not by a cookie,
/// so it has no CSRF token: other sites do not know the secret.
pub struct LinkForm(Fields);

impl LinkForm {
    /// A field; empty if it is not there.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.0.get(name)
    }
}

impl FromRequest<App> for LinkForm {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let (mut parts, _) = request.into_parts();
        Fields::read(&mut parts, app).map(Self)
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

/// The device secret that the browser holds.
#[must_use]
pub fn device(headers: &HeaderMap) -> Option<PresentedToken> {
    cookie(headers, DEVICE_COOKIE).map(|secret| PresentedToken::new(secret.to_owned()))
}

fn cookie<'a>(headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
    let mut found = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(name, _)| *name == wanted)
        .map(|(_, value)| value);
    // Of two cookies of one name, it is unknown which is meant.
    found.next().filter(|_| found.next().is_none())
}

pub(super) fn set_cookie(headers: &mut HeaderMap, cookie: &Token<BrowserSession>) {
    let life = lifetimes::BROWSER_SESSION;
    let text = format!("{COOKIE}={}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age={life}", cookie.expose());
    set_secret_cookie(headers, &text);
}

/// Sent along when an app sends the browser here too: the limits of a known device are there for that sign-in as well.
pub(super) fn set_device_cookie(headers: &mut HeaderMap, device: &DeviceSecret) {
    let life = lifetimes::DEVICE;
    let text = format!("{DEVICE_COOKIE}={}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age={life}", device.expose());
    set_secret_cookie(headers, &text);
}

fn set_secret_cookie(headers: &mut HeaderMap, text: &str) {
    if let Ok(mut value) = HeaderValue::from_str(text) {
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
