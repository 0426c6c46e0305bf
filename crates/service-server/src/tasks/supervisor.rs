//! The supervisor of a node's tasks: a node stops if one of them ends.
//!
//! A task runs until the node stops. One that ends by itself, or panics, stops the node: the process exits with an error
//! and is started again, instead of going on without mail, without revocations or without a listener.

use std::{
    fmt,
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::FutureExt as _;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use crate::app::App;

/// How long tasks may take to end, after the time for running requests.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// The tasks of a node.
pub struct Supervisor {
    app: App,
    tasks: JoinSet<()>,
    /// The first task that ended although the node was not stopping.
    failed: Arc<OnceLock<TaskEnded>>,
}

/// A task ended although the node was not stopping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct TaskEnded {
    pub name: &'static str,
    pub panicked: bool,
}

impl fmt::Display for TaskEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.panicked { "panicked" } else { "ended" };
        write!(f, "the background task {} {how}", self.name)
    }
}

/// What a task reports its successes with.
#[derive(Clone)]
pub struct Progress {
    app: App,
    name: &'static str,
}

impl Progress {
    /// Notes that a round of the task has succeeded.
    pub fn succeeded(&self) {
        self.app.metrics.task_succeeded(self.name, self.app.clock.now());
    }
}

impl Supervisor {
    #[must_use]
    pub fn new(app: App) -> Self {
        Self { app, tasks: JoinSet::new(), failed: Arc::default() }
    }

    /// Starts a task, which is to run until the node stops. If it does not, the node stops.
    pub fn spawn<F>(&mut self, name: &'static str, task: impl FnOnce(Progress) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let task = task(Progress { app: self.app.clone(), name });
        let (stop, failed) = (self.app.stop.clone(), self.failed.clone());
        self.tasks.spawn(async move {
            let panicked =
                AssertUnwindSafe(task.instrument(tracing::error_span!("task", name))).catch_unwind().await.is_err();
            if !stop.is_cancelled() {
                tracing::error!(task = name, panicked, "A background task ended; this node stops");
                failed.get_or_init(|| TaskEnded { name, panicked });
                stop.cancel();
            } else if panicked {
                tracing::error!(task = name, "A background task panicked while this node stopped");
            }
        });
    }

    /// Tells all tasks to stop and waits until they have. What a task does not finish in time is ended, as by a crash.
    ///
    /// # Errors
    /// The task that ended before.
    pub async fn stop(mut self) -> Result<(), TaskEnded> {
        self.app.stop.cancel();
        let ending = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(self.app.config.http.drain + END_TIMEOUT, ending).await.is_err() {
            tracing::warn!("Some background tasks did not end in time");
        }
        self.failed.get().cloned().map_or(Ok(()), Err)
    }
}
