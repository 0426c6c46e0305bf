//! The request that a task works for: log lines name it, and spans are parts of its trace.

use std::sync::{Arc, OnceLock};

use futures_util::future::Either;

use super::traces::RequestTrace;

tokio::task_local! {
    static CURRENT: Arc<CurrentRequest>;
}

/// A request, as logs and traces know it.
pub struct CurrentRequest {
    id: Arc<str>,
    /// The template of the route, or the name of the call.
    route: &'static str,
    /// `None`: the request is not sampled.
    trace: Option<RequestTrace>,
    /// The trace of the client, which follows the request by itself.
    client_trace: OnceLock<Box<str>>,
}

impl CurrentRequest {
    #[must_use]
    pub fn new(id: Arc<str>, route: &'static str, trace: Option<RequestTrace>) -> Self {
        Self { id, route, trace, client_trace: OnceLock::new() }
    }

    /// The fields that a log line has, with their names.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let client_trace = self.client_trace.get().map(|trace| ("trace.id", &**trace));
        [("request.id", &*self.id), ("route", self.route)].into_iter().chain(client_trace)
    }
}

/// Runs a future for a request.
pub fn within<F: Future>(request: CurrentRequest, work: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(Arc::new(request), work)
}

/// Runs a future for the request of another task.
pub fn within_same<F: Future>(request: Option<Arc<CurrentRequest>>, work: F) -> impl Future<Output = F::Output> {
    match request {
        Some(request) => Either::Left(CURRENT.scope(request, work)),
        None => Either::Right(work),
    }
}

/// The request that this task works for, for work that another task does.
#[must_use]
pub fn current() -> Option<Arc<CurrentRequest>> {
    CURRENT.try_with(Clone::clone).ok()
}

/// Notes the trace in which the client follows the current request. The first one stays.
pub fn note_client_trace(trace: &str) {
    if let Some(request) = current() {
        request.client_trace.get_or_init(|| trace.into());
    }
}

/// The trace of the current request; `None`: it is not sampled.
pub(super) fn trace() -> Option<RequestTrace> {
    CURRENT.try_with(|request| request.trace.clone()).ok().flatten()
}
