//! Limits of the support listener that count before a call is authenticated, in the memory of each node.
//!
//! Who has a client certificate and no key of a support client can make a node read a row and verify a signature. These limits
//! bound how often, for each certificate, and how many calls run at once. Limits on authenticated calls are in the database.

use std::{
    convert::Infallible,
    sync::{Arc, atomic::AtomicI64},
};

use quick_cache::sync::Cache;
use service_rules::{
    Timestamp,
    limits::{Limited, Rate},
};
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};

use super::count_at_rate;
use crate::net::server_tls::PeerCertificate;

/// The number of certificates that are tracked. The operator's authority issues them, so there are few.
const MAX_TRACKED_CERTIFICATES: usize = 1_024;
/// Calls with one certificate on one node: 240 at once, then ten a second.
const MAX_ATTEMPT_RATE: Rate = Rate { burst: 240, per_hour: 36_000 };
/// Calls that run at once. Each takes a connection from the pool that sign-ins use.
const MAX_CALLS_AT_ONCE: usize = 4;

/// Limits on calls that are not authenticated yet.
pub struct SupportAttempts {
    /// Theoretical arrival times in microseconds.
    arrivals: Cache<PeerCertificate, Arc<AtomicI64>>,
    places: Semaphore,
}

impl Default for SupportAttempts {
    fn default() -> Self {
        Self { arrivals: Cache::new(MAX_TRACKED_CERTIFICATES), places: Semaphore::new(MAX_CALLS_AT_ONCE) }
    }
}

impl SupportAttempts {
    /// Counts a call with this certificate.
    pub fn count(&self, certificate: PeerCertificate, now: Timestamp) -> Result<(), Limited> {
        let arrival: Result<_, Infallible> = self.arrivals.get_or_insert_with(&certificate, || Ok(Arc::default()));
        let Ok(arrival) = arrival;
        count_at_rate(&arrival, "support-attempts", MAX_ATTEMPT_RATE, now).map(drop)
    }

    /// Waits until a call may run.
    pub async fn take_place(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.places.acquire().await
    }
}
