//! The page of a list that a query asks for.

use service_api::page::{DEFAULT_LIMIT, MAX_LIMIT};

use crate::{
    http::{
        errors::{ApiError, MalformedRequest},
        query::Query,
    },
    pagination::PageRequest,
};

/// Reads `limit` and `cursor`.
pub fn page(query: &Query) -> Result<PageRequest<'_>, ApiError> {
    Ok(PageRequest { limit: limit(query)?, cursor: query.get("cursor") })
}

pub fn limit(query: &Query) -> Result<u16, ApiError> {
    let Some(text) = query.get("limit") else { return Ok(DEFAULT_LIMIT) };
    // Digits only: `+5` and `05` are other spellings of 5.
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    let limit = text.parse().ok().filter(|limit| plain && (1..=MAX_LIMIT).contains(limit));
    limit.ok_or_else(|| MalformedRequest::Query(format!("limit must be a number from 1 to {MAX_LIMIT}.")).into())
}
