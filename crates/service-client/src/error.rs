//! Errors of calls.

use std::{error::Error as _, io};

use service_api::{
    errors::{ErrorBody, ErrorCode, PASSKEY_METHOD, Reason},
    ids::ConnectionId,
};

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The service responded with an error.
    #[error("{} (request {})", .0.body.error_description, .0.body.request_id)]
    Refused(Box<Refusal>),
    /// The response, with this status, is not one of the service, or not one that this client understands.
    #[error("unexpected response (status {0}); check the base URL")]
    Unexpected(u16),
    /// The base URL is neither `https` nor on the loopback interface. Nothing was sent.
    #[error("the base URL must use https, or http on this machine")]
    PlainText,
    /// There was no response.
    #[error("cannot reach the service: {0}")]
    Unreachable(Trouble),
}

/// An error response.
#[derive(Debug)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The body: the code, a description for people, details for programs, and the ID of the request.
    pub body: ErrorBody,
    /// Seconds to wait before a retry.
    pub retry_after: Option<u64>,
    /// The scope that is required, from the challenge.
    pub scope: Option<String>,
}

impl Refusal {
    /// Why a genuine credential is no longer valid.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        Reason::parse(self.body.details.as_ref()?.get("reason")?.as_str()?)
    }

    /// The connection through which the user has to sign in.
    #[must_use]
    pub fn connection_id(&self) -> Option<ConnectionId> {
        self.body.details.as_ref()?.get("connectionId")?.as_str()?.parse().ok()
    }

    /// Whether the user has to sign in by a passkey in a browser, because a code is not enough.
    #[must_use]
    pub fn needs_passkey(&self) -> bool {
        let details = self.body.details.as_ref();
        details.and_then(|details| details.get("signInMethod")).is_some_and(|method| method == PASSKEY_METHOD)
    }

    /// Whether the workspace keeps the user out, whose account has to require a passkey first.
    #[must_use]
    pub fn needs_account_passkey(&self) -> bool {
        let details = self.body.details.as_ref();
        details.and_then(|details| details.get("workspaceRequires")).is_some_and(|what| what == PASSKEY_METHOD)
    }
}

/// Why there was no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The name of the host cannot be resolved.
    #[error("host not found")]
    NameNotFound,
    /// The host refused the connection: there is no server at that port.
    #[error("connection refused")]
    NotListening,
    /// The certificate of the host is not trusted.
    #[error("its TLS certificate is not trusted")]
    Tls,
    /// There was no response before the timeout.
    #[error("no response in time")]
    TimedOut,
    /// The connection broke, so whether the request was carried out is unknown.
    #[error("connection lost")]
    Broken,
}

impl Error {
    /// The error response, if there is one.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Whether the service responded with this code.
    #[must_use]
    pub fn is_code(&self, code: ErrorCode) -> bool {
        self.refusal().is_some_and(|refusal| refusal.body.error == code)
    }

    /// Whether the failure is temporary, so that a retry can succeed.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.status == 503,
            Self::Unexpected(status) => matches!(status, 502..=504),
            Self::PlainText => false,
            Self::Unreachable(trouble) => *trouble == Trouble::Broken,
        }
    }
}

impl From<reqwest::Error> for Error {
    /// Keeps only the kind of failure: the error itself may contain a URL with a query.
    fn from(error: reqwest::Error) -> Self {
        if error.is_timeout() {
            return Self::Unreachable(Trouble::TimedOut);
        }
        let mut cause = error.source();
        while let Some(inner) = cause {
            let text = inner.to_string();
            if text.contains("certificate") || text.contains("UnknownIssuer") {
                return Self::Unreachable(Trouble::Tls);
            }
            if text.contains("lookup address") || text.starts_with("dns error") {
                return Self::Unreachable(Trouble::NameNotFound);
            }
            if inner.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::ConnectionRefused) {
                return Self::Unreachable(Trouble::NotListening);
            }
            cause = inner.source();
        }
        Self::Unreachable(Trouble::Broken)
    }
}
