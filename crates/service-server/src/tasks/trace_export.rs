//! Sends the spans of sampled requests to the collector. Requests never wait for this.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::{app::App, tasks::supervisor::Progress, telemetry::traces::Traces};

/// The longest time between two exports while spans wait.
const EXPORT_EVERY: Duration = Duration::from_secs(1);

/// Exports spans when a batch is full, and at intervals.
pub async fn run(app: App, progress: Progress) {
    let Some(traces) = &app.traces else { return app.stop.cancelled().await };
    loop {
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = traces.batch_is_full() => {}
            () = tokio::time::sleep(EXPORT_EVERY) => {}
        }
        export(traces, &app).await;
        progress.succeeded();
    }
}

/// Exports all spans that wait, up to the first batch that the collector does not take.
async fn export(traces: &Traces, app: &App) {
    while traces.export_batch().await {
        if app.stop.is_cancelled() {
            return;
        }
    }
}

/// Exports what the last requests left, when a node stops. What is not exported in time is dropped.
pub async fn finish(app: &App, until: Instant) {
    let Some(traces) = &app.traces else { return };
    // Whether all were exported shows in what still waits.
    drop(timeout_at(until, async { while traces.export_batch().await {} }).await);
    let dropped = traces.drop_waiting();
    if dropped > 0 {
        tracing::warn!(spans = dropped, "Some spans were not exported before the stop");
    }
}
