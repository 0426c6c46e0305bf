//! What a node does in the background: renewing its keys, sealing what happened, and deleting what has expired.
//!
//! Every node does all of it. Deleting takes small batches of rows that nobody else holds, so nodes do not get in each
//! other's way and none of them has to be chosen.

use std::time::Duration;

use service_rules::{Timestamp, lifetimes, signing::later};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    app::App,
    audit_chain::Seal,
    flows::{audit_months, browser, rotate_signing_keys, seal_audit},
    letters::Letter,
    store::{self, Batch},
};

const BATCH: i64 = 1_000;
const CLEAN_EVERY: Duration = Duration::from_secs(60);
/// Within so long an event is under a seal.
const SEAL_EVERY: Duration = Duration::from_secs(10);
/// How often the log names the end of the chain of seals.
const ANCHOR_EVERY: Duration = Duration::from_secs(3600);
const NOTE_EVERY: Duration = Duration::from_secs(5);
const NOTED_AT_ONCE: usize = 1_000;
/// Letters written in one transaction.
const ANNOUNCED_AT_ONCE: i64 = 100;

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
        if let Err(error) = announce_ends(&app).await {
            tracing::warn!(error = format!("{error:#}"), "Could not announce that tokens end");
        }
        if let Err(error) = audit_months::keep(&app).await {
            tracing::warn!(error = format!("{error:#}"), "Could not begin or drop a month of audit events");
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

/// Tells owners of tokens for automation that end within a week, and again within a day.
pub async fn announce_ends(app: &App) -> anyhow::Result<()> {
    loop {
        let db = app.database.begin().await?;
        let (database_time, now) = (store::database_time(&db).await?, app.clock.now());
        anyhow::ensure!(!app.clock.is_off(now, database_time), "this node's clock differs from the database's");
        let ending = store::cli_tokens::claim_ending(&db, Batch { now, size: ANNOUNCED_AT_ONCE }).await?;
        for token in &ending {
            let letter = Letter::CliTokenEnds {
                to: token.email.clone(),
                name: token.name.clone(),
                hint: token.hint.clone(),
                expires_at: token.expires_at,
            };
            letter.post(&app.vault, &db, now, token.expires_at).await?;
        }
        db.commit().await?;
        if ending.is_empty() {
            return Ok(());
        }
        app.mail_waiting.notify_one();
    }
}

/// Seals audit events. Once an hour the log names the end of the chain: a copy of the log is then a witness of it.
pub async fn seal_audit(app: App, stop: CancellationToken) {
    let mut named: Option<Instant> = None;
    loop {
        let stopping = tokio::select! {
            () = stop.cancelled() => true,
            () = tokio::time::sleep(SEAL_EVERY) => false,
        };
        match seal_all(&app).await {
            Ok(Some(youngest)) if named.is_none_or(|named| named.elapsed() >= ANCHOR_EVERY) => {
                tracing::info!(anchor = youngest.anchor(), "Audit events are sealed");
                named = Some(Instant::now());
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(error = format!("{error:#}"), "Could not seal the audit events"),
        }
        if stopping {
            return;
        }
    }
}

/// Seals whatever can be sealed; returns the end of the chain if that has moved.
pub async fn seal_all(app: &App) -> anyhow::Result<Option<Seal>> {
    let mut youngest = None;
    loop {
        let pass = seal_audit::seal(app).await?;
        app.metrics.audit_events_sealed.inc_by(pass.events);
        youngest = pass.youngest.or(youngest);
        let age = |at: Timestamp| app.clock.now().duration_since(at).as_secs_f64().max(0.0);
        app.metrics.audit_unsealed_age.set(pass.oldest_unsealed.map_or(0.0, age));
        if !pass.more {
            return Ok(youngest);
        }
    }
}

/// Writes down when tokens for automation were used, a few seconds later and many at once.
pub async fn note_uses(app: App, stop: CancellationToken) {
    loop {
        let stopping = tokio::select! {
            () = stop.cancelled() => true,
            () = tokio::time::sleep(NOTE_EVERY) => false,
        };
        if let Err(error) = note_uses_once(&app).await {
            // Not worth trying again: the next use is noted too.
            tracing::warn!(error = format!("{error:#}"), "Could not note when tokens were used");
        }
        if stopping {
            return;
        }
    }
}

pub async fn note_uses_once(app: &App) -> anyhow::Result<()> {
    let uses = app.cli_tokens.take_uses();
    for part in uses.chunks(NOTED_AT_ONCE) {
        store::cli_tokens::mark_used(&app.database.connect().await?, part).await?;
    }
    Ok(())
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
            store::browser_sessions::delete_expired(&db, batch).await?,
            store::browser_sessions::delete_unseen(&db, browser::idle_since(now), BATCH).await?,
            store::clients::delete_unused(&db, later(now, -lifetimes::UNUSED_CLIENT), BATCH).await?,
            store::sign_in_flows::delete_expired(&db, batch).await?,
            store::authorization_codes::delete_expired(&db, later(now, -lifetimes::AUTHORIZATION_CODE_KEPT), BATCH)
                .await?,
            store::client_assertions::delete_expired(&db, batch).await?,
            store::invitations::delete_expired(&db, batch).await?,
            store::idempotency_keys::delete_expired(&db, later(now, -lifetimes::IDEMPOTENCY_KEY), BATCH).await?,
            store::deletions::delete_expired(&db, later(now, -lifetimes::DELETION_KNOWN), BATCH).await?,
            store::cli_tokens::delete_expired(&db, later(now, -lifetimes::CLI_TOKEN_LISTED), BATCH).await?,
        ];
        total += deleted.iter().sum::<u64>();
        // A full batch means that there may be more.
        if deleted.iter().all(|&rows| rows < BATCH.unsigned_abs()) {
            return Ok(total);
        }
    }
}
