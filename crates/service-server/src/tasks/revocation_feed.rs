//! The revocation feed: how a node learns of revocations by other nodes.
//!
//! Each node polls the table `revocations` over its own connection, so that a busy pool does not delay it. A
//! notification triggers a poll at once; without it the next poll comes a quarter of a second later. The position in
//! the feed is a PostgreSQL snapshot, so transactions that commit late are never missed.

use std::time::Duration;

use jiff::SignedDuration;
use service_rules::{Timestamp, revocation::Subject};
use tokio::time::Instant;

use crate::{
    app::App,
    clock::MAX_CLOCK_DIFFERENCE,
    database::{self, FormerPrimary},
    flows::revocation,
    store::{
        self,
        revocations::{FeedBatch, FeedPosition},
    },
    tasks::supervisor::Progress,
    tokens::revocations::{FeedRead, FeedSource},
};

/// The channel on which nodes notify each other; see `store/revocations.rs`.
const NOTIFY_CHANNEL: &str = "service_revocations";
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The shortest interval between two notifications. Revocations in between share one.
const NOTIFY_INTERVAL: Duration = Duration::from_millis(20);
const LISTEN_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The timeout for reading the whole table.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads the whole table before the node serves requests; returns the position.
pub async fn read_all(app: &App) -> anyhow::Result<FeedPosition> {
    read(app, None).await
}

/// Follows the table from the position that [`read_all`] returned.
pub async fn follow(app: App, begun: FeedPosition, progress: Progress) {
    let mut position = Some(begun);
    loop {
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = app.revocations.poll_requested.notified() => {}
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
        let clock_was_off = app.revocations.clock_is_off();
        let read = read(&app, position.as_ref()).await;
        if read.is_ok() {
            progress.succeeded();
        }
        match read {
            // Entries that a wrong clock expired are read again.
            Ok(_) if clock_was_off => position = None,
            Ok(next) => position = Some(next),
            Err(error) => tracing::warn!(error = format!("{error:#}"), "Could not read the revocations"),
        }
    }
}

/// Returns where the revocations were read. On a standby, the newest heartbeat tells how old they are.
fn source(batch: &FeedBatch, began: Instant, now: Timestamp) -> FeedSource {
    if !batch.from_standby {
        return FeedSource::Primary;
    }
    let age = batch.newest_beat_at.map(|at| now.duration_since(at));
    // A heartbeat from the future was written by a wrong clock, and tells nothing.
    let age = age.filter(|age| *age >= -MAX_CLOCK_DIFFERENCE).map(|age| age.max(SignedDuration::ZERO).unsigned_abs());
    FeedSource::Standby(age.and_then(|age| began.checked_sub(age)))
}

/// Reads the table from `position` or from the beginning; returns the next position.
async fn read(app: &App, position: Option<&FeedPosition>) -> anyhow::Result<FeedPosition> {
    let began = Instant::now();
    let (batch, now) = fetch(app, position).await?;
    let clock_is_off = app.clock.is_off(now, batch.database_time);
    if clock_is_off && !app.revocations.clock_is_off() {
        tracing::error!("This node's clock differs from the database's: the node serves no requests until they agree");
    }
    let next = batch.position.clone();
    let of_keys = batch.revocations.iter().any(|revocation| matches!(revocation.subject, Subject::SigningKey(_)));
    let source = source(&batch, began, now);
    app.revocations.apply_read(&FeedRead { began, source, clock_is_off, now }, batch.revocations);
    if of_keys {
        // Not awaited: tokens of the key are rejected already. This only removes it from the published keys.
        let app = app.clone();
        tokio::spawn(async move { app.reload_signing_keys().await });
    }
    Ok(next)
}

/// Reads what is new since `position`; also returns the time at which the read began.
///
/// A position is valid on the connection that it was read over. A server that crashed, failed over or was restored may
/// assign transaction numbers again. Then the whole table is read.
async fn fetch(app: &App, position: Option<&FeedPosition>) -> anyhow::Result<(FeedBatch, Timestamp)> {
    if let Some(position) = position {
        let db = app.feed_database.connect().await?;
        let now = app.clock.now();
        let batch = store::revocations::list_since(&db, &position.snapshot).await?;
        record_server(app, &batch)?;
        if batch.position.backend == position.backend {
            return Ok((batch, now));
        }
        if batch.position.server != position.server {
            tracing::warn!("The database server changed by failover or restore: reading all revocations again");
        }
    }
    let db = app.feed_database.connect_within(LIST_TIMEOUT).await?;
    let now = app.clock.now();
    let batch = store::revocations::list(&db, now).await?;
    record_server(app, &batch)?;
    Ok((batch, now))
}

/// Rejects what a former primary returned. Its connection is closed before the next read.
fn record_server(app: &App, batch: &FeedBatch) -> anyhow::Result<()> {
    app.servers
        .record(&batch.position.server)
        .map_err(|FormerPrimary| anyhow::anyhow!("this server is a former primary"))
}

/// Notifies the other nodes of revocations that this node committed.
pub async fn notify_nodes(app: App, progress: Progress) {
    loop {
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = app.revocations.notify_requested.notified() => {}
        }
        match revocation::notify_nodes(&app).await {
            Ok(()) => progress.succeeded(),
            // Other nodes find the revocations with their next poll.
            Err(error) => tracing::debug!(error = format!("{error:#}"), "Could not notify the other nodes"),
        }
        tokio::time::sleep(NOTIFY_INTERVAL).await;
    }
}

/// Listens for notifications of other nodes. Failures are harmless, because the node polls anyway.
pub async fn listen(app: App, progress: Progress) {
    loop {
        let listening = database::listen(&app.config.database, NOTIFY_CHANNEL, || {
            app.revocations.poll_requested.notify_one();
            progress.succeeded();
        });
        tokio::select! {
            () = app.stop.cancelled() => return,
            ended = listening => if let Err(error) = ended {
                tracing::debug!(error = format!("{error:#}"), "Could not listen for notifications");
            },
        }
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = tokio::time::sleep(LISTEN_RETRY_INTERVAL) => {}
        }
    }
}
