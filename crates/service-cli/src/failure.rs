//! How a command fails: a code for scripts, an exit code, a sentence for the user, and what to do next.

use serde_json::{Map, Value, json};

/// Why a command failed, for scripts: `error.code` in JSON output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureCode {
    RequestFailed,
    Conflict,
    InvalidInput,
    StoreFailed,
    Usage,
    NeedsTerminal,
    ConfirmationRequired,
    NotSignedIn,
    ReauthenticationRequired,
    SessionEnded,
    TokenExpired,
    TokenRevoked,
    TokenInvalid,
    TokenEmpty,
    CodeWrong,
    CodeExpired,
    Denied,
    LoginTimeout,
    MissingScope,
    WorkspaceForbidden,
    Forbidden,
    NotFound,
    Offline,
    Timeout,
    Tls,
    ServerUnavailable,
    RefreshBusy,
    RateLimited,
}

impl FailureCode {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::RequestFailed => "request_failed",
            Self::Conflict => "conflict",
            Self::InvalidInput => "invalid_input",
            Self::StoreFailed => "store_failed",
            Self::Usage => "usage",
            Self::NeedsTerminal => "needs_terminal",
            Self::ConfirmationRequired => "confirmation_required",
            Self::NotSignedIn => "not_signed_in",
            Self::ReauthenticationRequired => "reauthentication_required",
            Self::SessionEnded => "session_ended",
            Self::TokenExpired => "token_expired",
            Self::TokenRevoked => "token_revoked",
            Self::TokenInvalid => "token_invalid",
            Self::TokenEmpty => "token_empty",
            Self::CodeWrong => "code_wrong",
            Self::CodeExpired => "code_expired",
            Self::Denied => "denied",
            Self::LoginTimeout => "login_timeout",
            Self::MissingScope => "missing_scope",
            Self::WorkspaceForbidden => "workspace_forbidden",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Offline => "offline",
            Self::Timeout => "timeout",
            Self::Tls => "tls",
            Self::ServerUnavailable => "server_unavailable",
            Self::RefreshBusy => "refresh_busy",
            Self::RateLimited => "rate_limited",
        }
    }

    /// The exit code of the process.
    pub(crate) const fn exit_code(self) -> u8 {
        use FailureCode::*;
        match self {
            RequestFailed | Conflict | InvalidInput | StoreFailed => 1,
            Usage | NeedsTerminal | ConfirmationRequired => 2,
            NotSignedIn
            | ReauthenticationRequired
            | SessionEnded
            | TokenExpired
            | TokenRevoked
            | TokenInvalid
            | TokenEmpty
            | CodeWrong
            | CodeExpired
            | Denied
            | LoginTimeout => 4,
            MissingScope | WorkspaceForbidden | Forbidden => 5,
            NotFound => 6,
            Offline | Timeout | Tls | ServerUnavailable | RefreshBusy => 7,
            RateLimited => 8,
        }
    }
}

/// The rows of `service help exit-codes`.
pub(crate) const EXIT_CODES: &[(&str, &str)] = &[
    ("0", "Success"),
    ("1", "The service refused the request, or another error"),
    ("2", "Wrong usage, or a terminal or an option is required"),
    ("4", "Not signed in, sign-in too old, or token expired, revoked or invalid"),
    ("5", "Not allowed"),
    ("6", "Not found"),
    ("7", "The service can't be reached, or is unavailable"),
    ("8", "Too many requests"),
    ("130", "Stopped with Ctrl-C"),
];

/// The error of every command.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub(crate) code: FailureCode,
    /// What happened, as a sentence for the user.
    pub(crate) message: String,
    /// What the user can do next: a command to paste, if there is one.
    pub(crate) hints: Vec<String>,
    details: Map<String, Value>,
}

impl Failure {
    pub(crate) fn new(code: FailureCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hints: Vec::new(), details: Map::new() }
    }

    /// Adds something that the user can do next. The first one is `error.hint` in JSON output.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds a member to the error in JSON output, unless the value is null.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        if !value.is_null() {
            self.details.insert(name.to_owned(), value);
        }
        self
    }

    /// The HTTP status of the response that caused it, if one did.
    pub(crate) fn status(&self) -> Option<u64> {
        self.details.get("status").and_then(Value::as_u64)
    }

    /// Takes over what the JSON error says about the request of another failure, which this one explains better.
    pub(crate) fn with_details_of(mut self, other: &Self) -> Self {
        self.details.extend(other.details.clone());
        self
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut error = json!({ "code": self.code.as_str(), "message": self.message });
        if let Value::Object(members) = &mut error {
            if let Some(hint) = self.hints.first() {
                members.insert("hint".to_owned(), hint.as_str().into());
            }
            members.extend(self.details.clone());
        }
        json!({ "error": error })
    }
}
