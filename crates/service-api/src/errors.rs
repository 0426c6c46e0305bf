//! The one shape of every error, and the codes it can carry.

use serde::{Deserialize, Serialize};

/// The value of the `error` field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorCode {
    InvalidRequest,
    InvalidGrant,
    UnsupportedGrantType,
    UnauthorizedClient,
    InvalidScope,
    InvalidTarget,
    MissingToken,
    InvalidToken,
    InvalidClient,
    InsufficientScope,
    WorkspaceMismatch,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    Conflict,
    PayloadTooLarge,
    UriTooLong,
    UnsupportedMediaType,
    ValidationFailed,
    RateLimited,
    HeadersTooLarge,
    ServerError,
    TemporarilyUnavailable,
}

/// What every failed request answers with.
#[derive(Debug, Serialize, Deserialize)]
pub struct ErrorBody {
    pub error: ErrorCode,
    /// One sentence for a person: what happened, and what to do next.
    pub error_description: String,
    /// Quote it to whoever operates the service: their logs name it too.
    pub request_id: String,
    /// What a machine can act on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
}
