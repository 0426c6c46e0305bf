//! A document of an issuer in the memory of this node: fetched by one request at a time, and used on while its issuer is
//! down.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use service_rules::{Timestamp, signing::later};
use tokio::{sync::Mutex as AsyncMutex, time::timeout};

use crate::{
    issuers::error::{IssuerError, ProviderRequest},
    net::outbound::FetchError,
};

/// The timeout of a fetch, with everything that has to be fetched before.
const FETCH_TIMEOUT: Duration = Duration::from_millis(3_500);
/// Seconds for which a document that is no longer fresh is used while it cannot be fetched again.
const SERVED_WHILE_DOWN: i64 = 86_400;
/// Seconds after a failed fetch until the next one, without and with a document that can be used meanwhile.
const RETRY_AFTER: i64 = 10;
const REFRESH_RETRY_AFTER: i64 = 60;
/// Seconds between two fetches because of something that the document lacks.
const LACKING_FETCH_INTERVAL: i64 = 60;

/// A document that was fetched.
pub(super) struct Fetched<T> {
    pub(super) value: T,
    /// How long it is fresh, in seconds.
    pub(super) fresh_for: i64,
}

/// A document with the state of its cache entry.
pub(super) struct Slot<T> {
    /// What is requested to fetch the document.
    request: ProviderRequest,
    state: Mutex<State<T>>,
    /// Held by the request that fetches the document.
    turn: AsyncMutex<()>,
}

struct State<T> {
    cached: Option<Cached<T>>,
    /// The last fetch, if it failed.
    failed: Option<Failure>,
    /// When the document was last fetched because it lacked something.
    lacking_at: Option<Timestamp>,
}

struct Cached<T> {
    value: Arc<T>,
    fresh_until: Timestamp,
}

#[derive(Clone, Copy)]
struct Failure {
    at: Timestamp,
    why: IssuerError,
}

/// A document in use.
pub(super) struct Current<T> {
    pub(super) value: Arc<T>,
    /// Whether the request that asked for it has fetched it.
    pub(super) just_fetched: bool,
}

impl<T> Slot<T> {
    pub(super) fn new(request: ProviderRequest) -> Self {
        let state = State { cached: None, failed: None, lacking_at: None };
        Self { request, state: Mutex::new(state), turn: AsyncMutex::new(()) }
    }

    /// Returns what can be said without a fetch. `None`: the document has to be fetched.
    pub(super) fn known(&self, now: Timestamp) -> Option<Result<Arc<T>, IssuerError>> {
        let state = self.state();
        if let Some(cached) = state.cached.as_ref().filter(|cached| now < cached.fresh_until) {
            return Some(Ok(cached.value.clone()));
        }
        let usable = state.usable(now);
        let interval = if usable.is_some() { REFRESH_RETRY_AFTER } else { RETRY_AFTER };
        let failure = state.failed.filter(|failure| now < later(failure.at, interval))?;
        Some(usable.ok_or(failure.why))
    }

    /// Returns the document. Of several requests, one fetches it; the others wait, or use the old one. If the last fetch failed,
    /// they do not wait: a provider that is down occupies one request at a time.
    pub(super) async fn current(
        &self,
        now: Timestamp,
        fetch: impl AsyncFnOnce() -> Result<Fetched<T>, IssuerError>,
    ) -> Result<Current<T>, IssuerError> {
        let known = |value| Current { value, just_fetched: false };
        if let Some(result) = self.known(now) {
            return result.map(known);
        }
        let (usable, failed) = {
            let state = self.state();
            (state.usable(now), state.failed)
        };
        let _turn = match (self.turn.try_lock(), usable, failed) {
            (Ok(turn), ..) => turn,
            (Err(_), Some(old), _) => return Ok(known(old)),
            (Err(_), None, Some(failure)) => return Err(failure.why),
            (Err(_), None, None) => self.turn.lock().await,
        };
        // The request that had the turn before may have fetched it.
        if let Some(result) = self.known(now) {
            return result.map(known);
        }
        let fetched = self.in_time(fetch()).await;
        self.keep(fetched, now).map(|value| Current { value, just_fetched: true })
    }

    /// Returns a newer document than `seen`, which lacks something. `None`: there is none, and it was looked for lately.
    pub(super) async fn newer(
        &self,
        seen: &Arc<T>,
        now: Timestamp,
        fetch: impl AsyncFnOnce() -> Result<Fetched<T>, IssuerError>,
    ) -> Result<Option<Arc<T>>, IssuerError> {
        if let Some(result) = self.known_newer(seen, now) {
            return result;
        }
        let _turn = self.turn.lock().await;
        if let Some(result) = self.known_newer(seen, now) {
            return result;
        }
        self.state().lacking_at = Some(now);
        let fetched = self.in_time(fetch()).await;
        let failed = fetched.as_ref().err().copied();
        let kept = self.keep(fetched, now);
        failed.map_or_else(|| kept.map(Some), Err)
    }

    fn known_newer(&self, seen: &Arc<T>, now: Timestamp) -> Option<Result<Option<Arc<T>>, IssuerError>> {
        let state = self.state();
        let cached = state.cached.as_ref().map(|cached| &cached.value);
        if let Some(newer) = cached.filter(|value| !Arc::ptr_eq(value, seen)) {
            return Some(Ok(Some(newer.clone())));
        }
        let lately = state.lacking_at.is_some_and(|at| now < later(at, LACKING_FETCH_INTERVAL));
        lately.then(|| state.failed.map_or(Ok(None), |failure| Err(failure.why)))
    }

    /// Returns why the document could not be fetched, if the last fetch failed.
    pub(super) fn failure(&self) -> Option<IssuerError> {
        self.state().failed.map(|failure| failure.why)
    }

    async fn in_time(
        &self,
        fetch: impl Future<Output = Result<Fetched<T>, IssuerError>>,
    ) -> Result<Fetched<T>, IssuerError> {
        let too_slow = IssuerError::Request { request: self.request, why: FetchError::TooSlow };
        timeout(FETCH_TIMEOUT, fetch).await.unwrap_or(Err(too_slow))
    }

    /// Keeps the outcome of a fetch. Returns the document to use, which may be the old one.
    fn keep(&self, fetched: Result<Fetched<T>, IssuerError>, now: Timestamp) -> Result<Arc<T>, IssuerError> {
        let mut state = self.state();
        match fetched {
            Ok(Fetched { value, fresh_for }) => {
                let value = Arc::new(value);
                state.cached = Some(Cached { value: value.clone(), fresh_until: later(now, fresh_for) });
                state.failed = None;
                Ok(value)
            }
            Err(why) => {
                // A request that found no place has learned nothing about the document.
                if why != IssuerError::Busy {
                    state.failed = Some(Failure { at: now, why });
                }
                state.usable(now).ok_or(why)
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    /// The document, unless it is too old to be used although it is not fresh.
    fn usable(&self, now: Timestamp) -> Option<Arc<T>> {
        let usable = self.cached.as_ref().filter(|cached| now < later(cached.fresh_until, SERVED_WHILE_DOWN));
        usable.map(|cached| cached.value.clone())
    }
}
