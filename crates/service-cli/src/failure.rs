//! How a command fails: one code for programs, one exit code, a sentence, and what to do next.

use serde_json::{Map, Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    RequestFailed,
    Conflict,
    InvalidInput,
    StoreFailed,
    Usage,
    NeedsTerminal,
    ConfirmationRequired,
    NotSignedIn,
    SessionEnded,
    TokenExpired,
    TokenRevoked,
    TokenInvalid,
    TokenEmpty,
    Mistyped,
    Outdated,
    Denied,
    TimedOutWaiting,
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

impl Code {
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
            Self::SessionEnded => "session_ended",
            Self::TokenExpired => "token_expired",
            Self::TokenRevoked => "token_revoked",
            Self::TokenInvalid => "token_invalid",
            Self::TokenEmpty => "token_empty",
            Self::Mistyped => "code_wrong",
            Self::Outdated => "code_expired",
            Self::Denied => "denied",
            Self::TimedOutWaiting => "login_timeout",
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

    pub(crate) const fn exit(self) -> u8 {
        use Code::*;
        match self {
            RequestFailed | Conflict | InvalidInput | StoreFailed => 1,
            Usage | NeedsTerminal | ConfirmationRequired => 2,
            NotSignedIn | SessionEnded | TokenExpired | TokenRevoked | TokenInvalid | TokenEmpty | Mistyped
            | Outdated | Denied | TimedOutWaiting => 4,
            MissingScope | WorkspaceForbidden | Forbidden => 5,
            NotFound => 6,
            Offline | Timeout | Tls | ServerUnavailable | RefreshBusy => 7,
            RateLimited => 8,
        }
    }
}

/// Exit codes as `service help exit-codes` and the manual list them.
pub(crate) const EXITS: &[(&str, &str)] = &[
    ("0", "done"),
    ("1", "the service refused, or something failed for another reason"),
    ("2", "wrong usage, or a terminal or a flag is needed"),
    ("4", "not signed in, or the token is expired, revoked or malformed"),
    ("5", "signed in, but not allowed"),
    ("6", "not found"),
    ("7", "the service could not be reached or could not answer"),
    ("8", "too many requests"),
    ("130", "stopped with Ctrl-C"),
];

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    /// What happened, in the user's words.
    pub(crate) message: String,
    /// What to do: a command to paste, if there is one.
    pub(crate) next: Vec<String>,
    details: Map<String, Value>,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), next: Vec::new(), details: Map::new() }
    }

    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next.push(next.into());
        self
    }

    /// Something more that a program can act on; nothing if there is nothing.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        if !value.is_null() {
            self.details.insert(name.to_owned(), value);
        }
        self
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut error = json!({ "code": self.code.as_str(), "message": self.message });
        if let Value::Object(members) = &mut error {
            if let Some(hint) = self.next.first() {
                members.insert("hint".to_owned(), hint.as_str().into());
            }
            members.extend(self.details.clone());
        }
        json!({ "error": error })
    }
}
