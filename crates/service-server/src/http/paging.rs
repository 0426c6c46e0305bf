//! Which page of a list is asked for.

use service_api::page::{DEFAULT_LIMIT, MAX_LIMIT};

use crate::http::{
    error::{ApiError, Unreadable},
    query::Query,
};

pub fn limit(query: &Query) -> Result<u16, ApiError> {
    let Some(text) = query.get("limit") else { return Ok(DEFAULT_LIMIT) };
    // Digits only: `+5` and `05` are other spellings of what has one already.
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    let limit = text.parse().ok().filter(|limit| plain && (1..=MAX_LIMIT).contains(limit));
    limit.ok_or_else(|| Unreadable::Query(format!("limit is not a number from 1 to {MAX_LIMIT}.")).into())
}
