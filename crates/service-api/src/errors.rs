//! The body of every error response, and its codes.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::ids::{ConnectionId, Id as _, pattern};

/// The value of the `error` field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
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
    InvalidRedirectUri,
    InvalidClientMetadata,
    InsufficientScope,
    WorkspaceMismatch,
    Forbidden,
    InsufficientUserAuthentication,
    NotFound,
    MethodNotAllowed,
    Conflict,
    PreconditionFailed,
    PayloadTooLarge,
    UriTooLong,
    UnsupportedMediaType,
    ValidationFailed,
    CredentialInContent,
    RateLimited,
    HeadersTooLarge,
    ServerError,
    TemporarilyUnavailable,
}

impl ErrorCode {
    /// The HTTP status of this code.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::InvalidRequest
            | Self::InvalidGrant
            | Self::UnsupportedGrantType
            | Self::UnauthorizedClient
            | Self::InvalidScope
            | Self::InvalidTarget
            | Self::InvalidRedirectUri
            | Self::InvalidClientMetadata => 400,
            Self::MissingToken | Self::InvalidToken | Self::InvalidClient => 401,
            Self::InsufficientScope
            | Self::WorkspaceMismatch
            | Self::Forbidden
            | Self::InsufficientUserAuthentication => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::Conflict => 409,
            Self::PreconditionFailed => 412,
            Self::PayloadTooLarge => 413,
            Self::UriTooLong => 414,
            Self::UnsupportedMediaType => 415,
            Self::ValidationFailed | Self::CredentialInContent => 422,
            Self::RateLimited => 429,
            Self::HeadersTooLarge => 431,
            Self::ServerError => 500,
            Self::TemporarilyUnavailable => 503,
        }
    }
}

/// Why a genuine credential is no longer valid: `details.reason`. Only a caller that holds the credential learns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    Expired,
    Idle,
    Superseded,
    Replayed,
    RevokedByUser,
    RevokedByAdmin,
    Leaked,
    WorkspaceRemoved,
    UserDisabled,
    ClientDisabled,
    /// The token is for another resource: for `/mcp` instead of `/v1`, or the other way round.
    WrongAudience,
    /// The user's company requires single sign-on, and the credential did not begin with it.
    SsoRequired,
    /// The credential works again once the user signs in through their company.
    SsoAgain,
    /// The user's company ended the session.
    SsoSignedOut,
}

impl Reason {
    pub const ALL: [Self; 14] = [
        Self::Expired,
        Self::Idle,
        Self::Superseded,
        Self::Replayed,
        Self::RevokedByUser,
        Self::RevokedByAdmin,
        Self::Leaked,
        Self::WorkspaceRemoved,
        Self::UserDisabled,
        Self::ClientDisabled,
        Self::WrongAudience,
        Self::SsoRequired,
        Self::SsoAgain,
        Self::SsoSignedOut,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Idle => "idle",
            Self::Superseded => "superseded",
            Self::Replayed => "replayed",
            Self::RevokedByUser => "revoked_by_user",
            Self::RevokedByAdmin => "revoked_by_admin",
            Self::Leaked => "leaked",
            Self::WorkspaceRemoved => "workspace_removed",
            Self::UserDisabled => "user_disabled",
            Self::ClientDisabled => "client_disabled",
            Self::WrongAudience => "wrong_audience",
            Self::SsoRequired => "sso_required",
            Self::SsoAgain => "sso_again",
            Self::SsoSignedOut => "sso_signed_out",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

/// The user has to sign in by a passkey, or through their company: `details.signInMethod`. A code is not enough.
pub const PASSKEY_METHOD: &str = "passkey";

/// The members of [`ErrorBody::details`], for the schema.
struct ErrorDetails;

impl JsonSchema for ErrorDetails {
    fn schema_name() -> Cow<'static, str> {
        "ErrorDetails".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "What a program can act on. A newer server may send other members.",
            "properties": {
                "reason": {
                    "type": "string",
                    "enum": Reason::ALL.map(Reason::as_str),
                    "description": "Why a genuine credential is not valid. A newer server may send others.",
                },
                "fields": {
                    "type": "object",
                    "additionalProperties": { "type": "string" },
                    "description": "What is wrong with the fields of the body, by the name of the field.",
                },
                "maxAge": { "type": "integer", "description": "The maximum age of the sign-in, in seconds." },
                "signInMethod": {
                    "type": "string",
                    "enum": [PASSKEY_METHOD],
                    "description": "How the user has to sign in, if not every way is enough. A newer server may send others.",
                },
                "workspaceRequires": {
                    "type": "string",
                    "enum": [PASSKEY_METHOD],
                    "description": "What the workspace requires, and the account of the user does not. A newer server may send others.",
                },
                "connectionId": {
                    "type": "string",
                    "pattern": pattern(ConnectionId::KIND),
                    "description": "The connection through which the user has to sign in.",
                },
            },
        })
    }
}

/// The body of every error response.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Error")]
pub struct ErrorBody {
    /// The error code, for programs. A newer server may send others.
    pub error: ErrorCode,
    /// A sentence for people: what happened, and what to do next. It may change.
    pub error_description: String,
    /// The ID of the request, by which an operator finds it in the logs.
    pub request_id: String,
    /// What a program can act on: why a token is not valid, which fields are invalid, the maximum age of a sign-in in
    /// seconds, what the workspace requires, or the connection through which the user has to sign in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ErrorDetails")]
    pub details: Option<serde_json::Value>,
}
