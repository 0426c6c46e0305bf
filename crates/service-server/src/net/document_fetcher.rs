//! Fetches client metadata documents, within limits for each host and each user.

use std::{
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use ipnet::IpNet;
use quick_cache::sync::Cache;
use service_api::ids::UserId;
use tokio::{
    sync::{Mutex, OwnedMutexGuard},
    time::timeout,
};
use url::Url;

pub use crate::net::outbound::FetchError;
use crate::{
    net::{
        outbound::{AcceptedResponse, AllowedNetworks, Outbound, OutboundRequest, OutboundResponse, PlainHttp},
        places::{NoPlaceError, OutboundPlaces, PlaceLimits},
    },
    telemetry::traces,
};

const DOCUMENT: AcceptedResponse = AcceptedResponse {
    statuses: &[200],
    media_types: &["application/json"],
    max_bytes: 5 * 1_024,
    timeout: Duration::from_secs(5),
};
/// One user cannot occupy all places of a host.
const PLACES: PlaceLimits = PlaceLimits { in_total: 16, per_host: 4, per_party: 1 };
const MAX_TRACKED_DOCUMENTS: usize = 1_024;
const TURN_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a failed fetch is not retried.
const RETRY_FAILED_AFTER: Duration = Duration::from_secs(10);

/// Fetches documents within the limits of this node.
pub struct DocumentFetcher {
    outbound: Arc<Outbound>,
    /// Networks that may be connected to although they are not public.
    allowed: Vec<IpNet>,
    places: OutboundPlaces<UserId>,
    turns: Cache<String, Arc<Mutex<Option<Instant>>>>,
}

/// The exclusive right to fetch a document. It records when a fetch last failed.
pub struct FetchTurn(std::sync::Mutex<OwnedMutexGuard<Option<Instant>>>);

impl FetchTurn {
    /// Records that the fetch failed.
    pub fn failed(&self) {
        **self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

impl DocumentFetcher {
    #[must_use]
    pub fn new(outbound: Arc<Outbound>, allowed: Vec<IpNet>) -> Self {
        Self { outbound, allowed, places: OutboundPlaces::new(PLACES), turns: Cache::new(MAX_TRACKED_DOCUMENTS) }
    }

    /// Waits for the turn to fetch a document; `None`: the wait was too long, or a fetch has just failed.
    pub async fn turn(&self, id: &str) -> Option<FetchTurn> {
        let made: Result<_, std::convert::Infallible> =
            self.turns.get_or_insert_with(id, || Ok(Arc::new(Mutex::new(None))));
        let held = timeout(TURN_TIMEOUT, made.unwrap_or_default().lock_owned()).await.ok()?;
        let failed_lately = held.is_some_and(|failed: Instant| failed.elapsed() < RETRY_FAILED_AFTER);
        (!failed_lately).then(|| FetchTurn(std::sync::Mutex::new(held)))
    }
}

/// Fetches a document for a user. Fails at once if a limit is reached. So a slow host only occupies its own fetches,
/// and a user only one of them.
pub async fn fetch(documents: &DocumentFetcher, url: &Url, user_id: UserId) -> Result<OutboundResponse, FetchError> {
    let _place = documents.places.try_take(&user_id, url.host_str().unwrap_or_default()).map_err(|why| match why {
        NoPlaceError::Party => FetchError::UserBusy,
        NoPlaceError::Host => FetchError::HostBusy,
        NoPlaceError::Total => FetchError::Busy,
    })?;
    let allowed = AllowedNetworks { networks: &documents.allowed, plain_http: PlainHttp::Nowhere };
    let request = OutboundRequest { url, body: None, authorization: None, allowed, accepted: DOCUMENT };
    let span = traces::part(["client metadata", "document"]);
    let fetched = documents.outbound.send(&request).await;
    traces::end(span, fetched.is_err().then_some("fetch"));
    fetched
}
