//! What the edge and the handler of a request tell each other.

use std::sync::{Arc, OnceLock};

use axum::http::{Extensions, request::Parts};
use service_api::{Timestamp, endpoints::Endpoint};
use service_rules::limits::Allowance;

/// What the edge knows of a request, and what its handler finds out for the headers of the response.
#[derive(Clone)]
pub struct Exchange(Arc<Notes>);

struct Notes {
    endpoint: Option<&'static Endpoint>,
    token_expires: OnceLock<Timestamp>,
    allowances: OnceLock<Vec<Allowance>>,
}

impl Exchange {
    /// Begins an exchange with the request that has these extensions. `None`: no endpoint has its method and path.
    pub(super) fn begin(extensions: &mut Extensions, endpoint: Option<&'static Endpoint>) -> Self {
        let notes = Notes { endpoint, token_expires: OnceLock::new(), allowances: OnceLock::new() };
        let exchange = Self(Arc::new(notes));
        extensions.insert(exchange.clone());
        exchange
    }

    /// The exchange that a request belongs to; `None`: it did not pass the edge.
    #[must_use]
    pub fn of(parts: &Parts) -> Option<&Self> {
        parts.extensions.get()
    }

    /// The row of the request in the endpoint table.
    #[must_use]
    pub fn endpoint(parts: &Parts) -> Option<&'static Endpoint> {
        Self::of(parts)?.0.endpoint
    }

    /// Notes when the CLI token of the request expires.
    pub fn note_expiry(&self, at: Timestamp) {
        self.0.token_expires.get_or_init(|| at);
    }

    /// When the CLI token of the request expires; `None`: it was accepted with another token, or with none.
    #[must_use]
    pub fn token_expires(&self) -> Option<Timestamp> {
        self.0.token_expires.get().copied()
    }

    /// Notes what is left of the user's limits.
    pub fn note_allowances(&self, left: Vec<Allowance>) {
        self.0.allowances.get_or_init(|| left);
    }

    /// What is left of the user's limits; `None`: the request was not counted.
    #[must_use]
    pub fn allowances(&self) -> Option<&[Allowance]> {
        self.0.allowances.get().map(Vec::as_slice)
    }
}
