//! What a node does in the background: renewing its keys, and deleting what has expired.
//!
//! Every node does all of it. Deleting takes small batches of rows that nobody else holds, so nodes do not get in each
//! other's way and none of them has to be chosen.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::{
    app::App,
    flows::rotate_signing_keys,
    store::{self, Batch},
};

const BATCH: i64 = 1_000;
const CLEAN_EVERY: Duration = Duration::from_secs(60);

/// Renews this node's copy of the signing keys, so that it knows a new key before the key signs.
pub async fn follow_signing_keys(app: App, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(app.config.keys.refresh_every) => {}
        }
        if let Err(error) = app.reload_signing_keys().await {
            tracing::warn!(error = format!("{error:#}"), "Could not renew the signing keys");
        }
    }
}

/// Deletes what has expired, and lets a new signing key follow when it is time.
pub async fn clean(app: App, stop: CancellationToken) {
    loop {
        if let Err(error) = rotate_signing_keys::rotate_if_due(&app).await {
            tracing::warn!(error = format!("{error:#}"), "Could not let a signing key follow");
        }
        match clean_once(&app).await {
            Ok(deleted) => drop(app.metrics.rows_cleaned.inc_by(deleted)),
            Err(error) => tracing::warn!(error = format!("{error:#}"), "Could not clean up"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(CLEAN_EVERY) => {}
        }
    }
}

/// Deletes everything that has expired; returns how many rows that were.
pub async fn clean_once(app: &App) -> anyhow::Result<u64> {
    let mut total = 0;
    loop {
        let db = app.database.connect().await?;
        let (database_time, now) = (store::database_time(&db).await?, app.clock.now());
        // What is deleted by a clock that is wrong would be missed: codes, mails, and what was ended.
        anyhow::ensure!(!app.clock.is_off(now, database_time), "this node's clock differs from the database's");
        let batch = Batch { now, size: BATCH };
        let deleted = [
            store::otps::delete_expired(&db, batch).await?,
            store::recent_hits::delete_expired(&db, batch).await?,
            store::rates::delete_expired(&db, batch).await?,
            store::outbox::delete_expired(&db, batch).await?,
            store::signing_keys::delete_expired(&db, batch).await?,
            store::revocations::delete_expired(&db, batch).await?,
        ];
        total += deleted.iter().sum::<u64>();
        // A full batch means that there may be more.
        if deleted.iter().all(|&rows| rows < BATCH.unsigned_abs()) {
            return Ok(total);
        }
    }
}
