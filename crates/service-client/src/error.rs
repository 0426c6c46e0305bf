//! Why a call gave no result.

use std::{error::Error as _, io};

use service_api::errors::{ErrorBody, ErrorCode, Reason};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The service said no, and why.
    #[error("{} (request {})", .0.body.error_description, .0.body.request_id)]
    Refused(Box<Refusal>),
    /// What answered is not the service, or not one that this client understands.
    #[error("the answer (status {0}) is not one of the service; check the address")]
    Unexpected(u16),
    /// There was no answer.
    #[error("the service cannot be reached: {0}")]
    Unreachable(Trouble),
}

/// A refusal with all that can be done about it.
#[derive(Debug)]
pub struct Refusal {
    pub status: u16,
    pub body: ErrorBody,
    /// Seconds to wait.
    pub retry_after: Option<u64>,
    /// The scope that would do, as the challenge names it.
    pub scope: Option<String>,
}

impl Refusal {
    /// Why a genuine credential is dead; only its holder is told.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        Reason::parse(self.body.details.as_ref()?.get("reason")?.as_str()?)
    }
}

/// Why nothing answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    #[error("name not found")]
    NameNotFound,
    #[error("nothing listens there")]
    NotListening,
    #[error("its certificate is not trusted here")]
    Tls,
    #[error("it did not answer in time")]
    TimedOut,
    #[error("the connection broke")]
    Broken,
}

impl Error {
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    #[must_use]
    pub fn is_code(&self, code: ErrorCode) -> bool {
        self.refusal().is_some_and(|refusal| refusal.body.error == code)
    }

    /// Whether the same request may fare better in a moment. What was refused for a reason will not.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.status == 503,
            Self::Unexpected(status) => matches!(status, 502..=504),
            Self::Unreachable(trouble) => *trouble == Trouble::Broken,
        }
    }
}

impl From<reqwest::Error> for Error {
    /// Only what kind of trouble it is: the error itself may hold an address with a query.
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
