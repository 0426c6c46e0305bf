//! `Idempotency-Key`: a request that may be sent twice is carried out once.

use axum::http::HeaderMap;

use crate::http::error::{ApiError, Unreadable};

const MAX_LENGTH: usize = 255;

/// The key of a request, if it has one: visible ASCII without spaces, at most 255 characters, once.
pub fn key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value
        .to_str()
        .ok()
        .filter(|text| (1..=MAX_LENGTH).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()));
    match (text, values.next()) {
        (Some(text), None) => Ok(Some(text)),
        _ => {
            Err(Unreadable::Body(format!("Idempotency-Key is not 1 to {MAX_LENGTH} visible characters, once.")).into())
        }
    }
}
