//! Limits on outgoing requests that run at once, so that a slow host occupies only its own share of them.

use std::{hash::Hash, sync::Arc};

use quick_cache::sync::Cache;
use service_rules::domains::registered_part;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Hosts and parties whose running requests are counted. The counts of the least used ones are dropped.
const MAX_TRACKED: usize = 1_024;

/// The size of [`OutboundPlaces`].
#[derive(Clone, Copy, Debug)]
pub struct PlaceLimits {
    pub in_total: usize,
    pub per_host: usize,
    /// Places of one party: a user or an issuer, on whose behalf requests are sent.
    pub per_party: usize,
}

/// Places for requests of one purpose that run at once: in total, for each host and for each party.
pub struct OutboundPlaces<P> {
    limits: PlaceLimits,
    in_total: Arc<Semaphore>,
    hosts: Cache<String, Arc<Semaphore>>,
    parties: Cache<P, Arc<Semaphore>>,
}

/// A place for a request. Dropping it frees the place.
pub struct OutboundPlace {
    _permits: [OwnedSemaphorePermit; 3],
}

/// Why there is no place for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlaceError {
    #[error("all places of the party are taken")]
    Party,
    #[error("all places of the host are taken")]
    Host,
    #[error("all places are taken")]
    Total,
}

impl<P: Clone + Eq + Hash> OutboundPlaces<P> {
    #[must_use]
    pub fn new(limits: PlaceLimits) -> Self {
        Self {
            limits,
            in_total: Arc::new(Semaphore::new(limits.in_total)),
            hosts: Cache::new(MAX_TRACKED),
            parties: Cache::new(MAX_TRACKED),
        }
    }

    /// Takes a place, or fails at once if there is none.
    pub fn try_take(&self, party: &P, host: &str) -> Result<OutboundPlace, NoPlaceError> {
        let of_party = self.of_party(party).try_acquire_owned().map_err(|_| NoPlaceError::Party)?;
        let of_host = self.of_host(host).try_acquire_owned().map_err(|_| NoPlaceError::Host)?;
        let in_total = self.in_total.clone().try_acquire_owned().map_err(|_| NoPlaceError::Total)?;
        Ok(OutboundPlace { _permits: [of_party, of_host, in_total] })
    }

    /// Waits for a place. A request that waits for a place of its host occupies none of those of other hosts.
    pub async fn take(&self, party: &P, host: &str) -> Result<OutboundPlace, NoPlaceError> {
        let of_party = self.of_party(party).acquire_owned().await.map_err(|_| NoPlaceError::Party)?;
        let of_host = self.of_host(host).acquire_owned().await.map_err(|_| NoPlaceError::Host)?;
        let in_total = self.in_total.clone().acquire_owned().await.map_err(|_| NoPlaceError::Total)?;
        Ok(OutboundPlace { _permits: [of_party, of_host, in_total] })
    }

    fn of_party(&self, party: &P) -> Arc<Semaphore> {
        let made: Result<_, std::convert::Infallible> =
            self.parties.get_or_insert_with(party, || Ok(Arc::new(Semaphore::new(self.limits.per_party))));
        let Ok(places) = made;
        places
    }

    /// Names below one registered domain share their places, because its owner can have any number of them.
    fn of_host(&self, host: &str) -> Arc<Semaphore> {
        let host = registered_part(host);
        let made: Result<_, std::convert::Infallible> =
            self.hosts.get_or_insert_with(host, || Ok(Arc::new(Semaphore::new(self.limits.per_host))));
        let Ok(places) = made;
        places
    }
}
