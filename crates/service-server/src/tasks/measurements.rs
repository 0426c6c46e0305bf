//! Measures what no request does: mails that wait, and the sizes of tables.

use std::time::Duration;

use service_rules::{Timestamp, signing::later};

use crate::{app::App, crypto::random, store, tasks::supervisor::Progress};

const MEASURE_EVERY: Duration = Duration::from_secs(30);
/// More mails are not counted, so that a long queue does not make the measurement expensive.
const MAX_COUNTED_MAILS: i64 = 10_000;

/// Mail whose next attempt is later, in seconds, was put off because its address bounced. Mail that failed is tried sooner.
const PUT_OFF: i64 = 120;

/// Measures until the node stops.
pub async fn run(app: App, progress: Progress) {
    loop {
        match measure(&app).await {
            Ok(()) => progress.succeeded(),
            Err(error) => tracing::warn!(error = format!("{error:#}"), "Could not measure the outbox and the tables"),
        }
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = tokio::time::sleep(MEASURE_EVERY) => {}
        }
    }
}

/// Measures once.
pub async fn measure(app: &App) -> anyhow::Result<()> {
    let db = app.background_database.connect().await?;
    let waiting = store::measurements::count_mails(&db, later(app.clock.now(), PUT_OFF), MAX_COUNTED_MAILS).await?;
    let oldest = waiting.oldest.and_then(random::time_of);
    let age = |since: Timestamp| app.clock.now().duration_since(since).as_secs_f64().max(0.0);
    app.metrics.mails_waiting.set(waiting.count);
    app.metrics.mails_waiting_age.set(oldest.map_or(0.0, age));
    for size in store::measurements::list_tables(&db).await? {
        app.metrics.table_measured(size.table, size.rows, size.bytes);
    }
    Ok(())
}
