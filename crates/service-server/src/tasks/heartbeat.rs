//! The node's heartbeat: a small commit every few seconds that must be confirmed like any other.
//!
//! A primary that was cut off from its synchronous standby still serves reads, but they may be out of date: the standby
//! may have been promoted, and tokens revoked on it. Such a primary cannot confirm a commit. So a node accepts tokens
//! only while its own heartbeat was confirmed recently; see `tokens/revocations.rs`.

use std::time::Duration;

use service_rules::restore::Anchor;
use tokio::time::Instant;

use crate::{
    app::App,
    crypto::random,
    database::{
        Comparison,
        restore_fence::{self, Fence},
    },
    flows::operations::compare_server,
    store,
    tasks::supervisor::Progress,
};

/// With the jitter, a heartbeat is at most a second old, so that tokens are accepted for nearly all of the 30 seconds after
/// the database went away. A hundred nodes make a hundred and thirty small commits a second.
const BEAT_EVERY: Duration = Duration::from_millis(500);
/// The maximum that is added to each wait, so that nodes started together do not commit together.
const BEAT_JITTER: Duration = Duration::from_millis(500);

/// How often a confirmed heartbeat is written to `restore.anchor_file`.
const ANCHOR_EVERY: Duration = Duration::from_secs(60);

/// Compares the database server with the recorded one, then writes this node's heartbeat. If it is confirmed, records
/// the moment at which it began.
pub async fn beat(app: &App) -> anyhow::Result<()> {
    // By a clock that is ahead, a lagging standby would look up to date to other nodes.
    anyhow::ensure!(!app.revocations.clock_is_off(), "this node's clock differs from the database's");
    let restores = compare_server::compare(app).await?;
    let (began, now) = (Instant::now(), app.clock.now());
    let db = app.heartbeat_database.connect().await?;
    // A heartbeat in a restored database would hide that it was restored.
    anyhow::ensure!(app.servers.comparison() == Comparison::Done, "another server took over since the comparison");
    app.revocations.heartbeat_begun(now, began);
    store::node_heartbeats::replace(&db, app.node_id, now).await?;
    app.revocations.heartbeat_confirmed(began, app.servers.changed_at().map(Into::into));
    app.restore_fence.record_confirmed(Anchor { restores, beat_at: now });
    Ok(())
}

/// Writes this node's heartbeat until the node stops.
pub async fn run(app: App, progress: Progress) {
    let mut anchored: Option<Instant> = None;
    loop {
        tokio::select! {
            () = app.stop.cancelled() => return,
            // Requests wait for the comparison with a new server.
            () = app.servers.changed() => {}
            () = app.revocations.beat_requested.notified() => {}
            () = tokio::time::sleep(BEAT_EVERY + random::jitter(BEAT_JITTER)) => {}
        }
        match beat(&app).await {
            Ok(()) => progress.succeeded(),
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), "This node's heartbeat was not confirmed");
            }
        }
        if anchored.is_none_or(|at| at.elapsed() >= ANCHOR_EVERY) {
            anchored = Some(Instant::now());
            if let Err(error) = write_anchor(&app) {
                tracing::warn!(error = format!("{error:#}"), "Could not write restore.anchor_file");
            }
        }
    }
}

/// Writes the last confirmed heartbeat to the file outside of the database, unless the database looks restored.
pub fn write_anchor(app: &App) -> anyhow::Result<()> {
    match (&app.config.restore.anchor_file, app.restore_fence.last_confirmed()) {
        (Some(path), Some(anchor)) if app.fence() == Fence::Open => restore_fence::write_anchor(path, anchor),
        _ => Ok(()),
    }
}
