//! Why a call gave no result.

use service_api::errors::ErrorBody;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The service said no, and why.
    #[error("{} (request {})", .1.error_description, .1.request_id)]
    Refused(u16, ErrorBody),
    /// What answered is not the service, or not one that this client understands.
    #[error("the answer (status {0}) is not one of the service; check the address")]
    Unexpected(u16),
    /// There was no answer.
    #[error("the service cannot be reached; check the address and the network")]
    Unreachable(#[source] reqwest::Error),
}

impl From<reqwest::Error> for Error {
    /// Without the address, in which a query may hold what nobody should read.
    fn from(error: reqwest::Error) -> Self {
        Self::Unreachable(error.without_url())
    }
}
