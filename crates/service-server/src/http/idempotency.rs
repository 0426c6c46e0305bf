//! `Idempotency-Key`: a request that is sent twice takes effect once.

use axum::http::HeaderMap;

use crate::http::errors::{ApiError, MalformedRequest};

const MAX_KEY_CHARACTERS: usize = 255;

/// Returns the idempotency key of a request, if it has one: one header of up to 255 visible ASCII characters without
/// spaces.
pub fn key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| {
        (1..=MAX_KEY_CHARACTERS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
    });
    match (text, values.next()) {
        (Some(text), None) => Ok(Some(text)),
        _ => Err(MalformedRequest::Body(format!(
            "Idempotency-Key must be sent once, with 1 to {MAX_KEY_CHARACTERS} visible characters."
        ))
        .into()),
    }
}
