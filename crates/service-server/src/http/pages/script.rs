//! The one script of the pages. A page that has it names its hash in the content security policy, so that the browser runs no
//! other.

use std::sync::LazyLock;

use axum::{
    http::{HeaderValue, header},
    response::Response,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};

use crate::crypto::digest::sha256;

/// Asks the browser for a passkey. A page holds the text between its tags.
pub(super) const PASSKEYS: &str = include_str!("../../../assets/passkeys.js");

static PASSKEYS_SOURCE: LazyLock<String> =
    LazyLock::new(|| format!("; script-src 'sha256-{}'", BASE64_STANDARD.encode(sha256(PASSKEYS))));

/// Lets a page run the script for passkeys, and nothing else.
pub(super) fn allow(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let policy = headers.get(header::CONTENT_SECURITY_POLICY).map(HeaderValue::as_bytes).unwrap_or_default();
    let policy = [policy, PASSKEYS_SOURCE.as_bytes()].concat();
    if let Ok(policy) = HeaderValue::from_bytes(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}
