//! The two ways a flow can fail.

/// Why a flow gave no result.
#[derive(Debug)]
pub enum Failure<R> {
    /// The caller may not have what it asked for; `R` says why, and the answer depends on it.
    Refused(R),
    /// The service itself failed; logged once at the edge, and never shown.
    Broken(anyhow::Error),
}

impl<R> Failure<R> {
    /// The same in other words.
    pub fn map<S>(self, f: impl FnOnce(R) -> S) -> Failure<S> {
        match self {
            Self::Refused(refusal) => Failure::Refused(f(refusal)),
            Self::Broken(broken) => Failure::Broken(broken),
        }
    }

    /// Where nothing can be refused.
    pub fn broken_or(self, f: impl FnOnce(R) -> anyhow::Error) -> anyhow::Error {
        match self {
            Self::Refused(refusal) => f(refusal),
            Self::Broken(broken) => broken,
        }
    }
}

impl<R> From<crate::database::Error> for Failure<R> {
    fn from(error: crate::database::Error) -> Self {
        Self::Broken(error.into())
    }
}

impl<R> From<anyhow::Error> for Failure<R> {
    fn from(error: anyhow::Error) -> Self {
        Self::Broken(error)
    }
}
