//! Periodic background work: reloading signing keys, sealing audit events, and deleting expired rows.
//!
//! Every node does all of it. Deletions take small batches and skip locked rows, so nodes do not wait for each other
//! and no leader is needed.

use std::time::Duration;

use service_rules::{Timestamp, lifetimes, signing::later};
use tokio::time::Instant;

use crate::{
    app::App,
    audit::chain::Seal,
    database::{Connection, Error},
    flows::{
        audit::{keys, partitions, sealing},
        oauth::consents,
        operations::retention,
        rotate_signing_keys,
        sign_in::browser_session,
    },
    mail::Email,
    store::{self, Batch},
    tasks::supervisor::Progress,
};

const BATCH_ROWS: i64 = 1_000;
/// The batch size for deletions, which take their deleted contents with them.
const DELETIONS_BATCH_ROWS: i64 = 200;
const CLEAN_EVERY: Duration = Duration::from_secs(60);
/// The interval between two rounds of sealing.
const SEAL_EVERY: Duration = Duration::from_secs(10);
/// How often the log names the last seal.
const ANCHOR_EVERY: Duration = Duration::from_secs(3600);
const WRITE_USES_EVERY: Duration = Duration::from_secs(5);
const USES_PER_STATEMENT: usize = 1_000;
/// The number of mails that are queued in one transaction.
const EXPIRY_NOTICES_PER_TRANSACTION: i64 = 100;

/// Reloads the signing keys periodically, so that this node knows a new key before the key signs.
pub async fn follow_signing_keys(app: App, progress: Progress) {
    loop {
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = tokio::time::sleep(app.config.keys.refresh_every) => {}
        }
        match app.reload_signing_keys().await {
            Ok(()) => progress.succeeded(),
            Err(error) => tracing::warn!(error = format!("{error:#}"), "Could not reload the signing keys"),
        }
    }
}

/// Deletes expired rows, and rotates the signing key when it is due.
pub async fn clean(app: App, progress: Progress) {
    loop {
        if clean_all(&app).await {
            progress.succeeded();
        }
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = tokio::time::sleep(CLEAN_EVERY) => {}
        }
    }
}

/// Runs every step once, even if others fail; `false`: one of them failed.
async fn clean_all(app: &App) -> bool {
    let mut all_done = true;
    let mut check = |done: anyhow::Result<()>, what: &str| {
        if let Err(error) = done {
            tracing::warn!(error = format!("{error:#}"), "{what}");
            all_done = false;
        }
    };
    let count = |deleted| {
        app.metrics.rows_cleaned.inc_by(deleted);
    };
    check(rotate_signing_keys::rotate_if_due(app).await.map(drop), "Could not rotate the signing key");
    check(notify_expiring(app).await, "Could not notify owners of expiring tokens");
    check(consents::expire_unused(app).await.map(drop), "Could not delete unused consents");
    check(partitions::keep(app).await.map(drop), "Could not create or drop a partition of audit events");
    check(keys::prepare(app, app.clock.now()).await.map(drop), "Could not prepare the keys of audit events");
    check(retention::delete_ended(app).await.map(count), "Could not delete old sessions");
    check(clean_once(app).await.map(count), "Could not delete the expired rows of every table");
    all_done
}

/// Notifies owners of CLI tokens that expire within a week, and again within a day.
pub async fn notify_expiring(app: &App) -> anyhow::Result<()> {
    loop {
        let db = app.background_database.begin().await?;
        let (database_time, now) = (store::database_time(&db).await?, app.clock.now());
        anyhow::ensure!(!app.clock.is_off(now, database_time), "this node's clock differs from the database's");
        let ending =
            store::cli_tokens::claim_expiring(&db, Batch { now, size: EXPIRY_NOTICES_PER_TRANSACTION }).await?;
        for token in &ending {
            let mail = Email::CliTokenEnds {
                to: token.email.clone(),
                name: token.name.clone(),
                hint: token.hint.clone(),
                expires_at: token.expires_at,
            };
            mail.enqueue(&app.root_keys, &db, now, token.expires_at).await?;
        }
        db.commit().await?;
        if ending.is_empty() {
            return Ok(());
        }
        app.mail_waiting.notify_one();
    }
}

/// Seals audit events. Once an hour the log names the last seal, so that a copy of the log is evidence of the chain.
pub async fn seal_audit(app: App, progress: Progress) {
    let mut named: Option<Instant> = None;
    loop {
        let stopping = tokio::select! {
            () = app.stop.cancelled() => true,
            () = tokio::time::sleep(SEAL_EVERY) => false,
        };
        let sealed = seal_all(&app).await;
        if sealed.is_ok() {
            progress.succeeded();
        }
        match sealed {
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

/// Seals all events that can be sealed; returns the last seal if there is a new one.
pub async fn seal_all(app: &App) -> anyhow::Result<Option<Seal>> {
    let mut youngest = None;
    loop {
        let pass = sealing::seal(app).await?;
        app.metrics.audit_events_sealed.inc_by(pass.events);
        youngest = pass.youngest.or(youngest);
        let age = |at: Timestamp| app.clock.now().duration_since(at).as_secs_f64().max(0.0);
        app.metrics.audit_unsealed_age.set(pass.oldest_unsealed.map_or(0.0, age));
        if !pass.more {
            return Ok(youngest);
        }
    }
}

/// Records uses of CLI tokens every few seconds, many in one statement.
pub async fn record_uses(app: App, progress: Progress) {
    loop {
        let stopping = tokio::select! {
            () = app.stop.cancelled() => true,
            () = tokio::time::sleep(WRITE_USES_EVERY) => false,
        };
        match record_uses_once(&app).await {
            Ok(()) => progress.succeeded(),
            // A failed write is not retried, because the next use is recorded too.
            Err(error) => tracing::warn!(error = format!("{error:#}"), "Could not record uses of tokens"),
        }
        if stopping {
            return;
        }
    }
}

/// Records the uses that were collected so far.
pub async fn record_uses_once(app: &App) -> anyhow::Result<()> {
    let uses = app.cli_tokens.take_uses();
    for part in uses.chunks(USES_PER_STATEMENT) {
        store::cli_tokens::mark_used(&app.background_database.connect().await?, part).await?;
    }
    Ok(())
}

/// Deletes all expired rows; returns how many. Each table has its own timeout, and a failure in one does not stop the
/// others. The first failure is returned at the end.
pub async fn clean_once(app: &App) -> anyhow::Result<u64> {
    let mut cleaning = CleanupPass { app, rows: 0, more: true, failure: None };
    while std::mem::take(&mut cleaning.more) {
        let db = app.background_database.connect().await?;
        let (database_time, now) = (store::database_time(&db).await?, app.clock.now());
        drop(db);
        // By a wrong clock, rows would be deleted that are still needed: codes, mails and revocations.
        anyhow::ensure!(!app.clock.is_off(now, database_time), "this node's clock differs from the database's");
        cleaning.pass(now).await;
        if cleaning.failure.is_some() {
            break;
        }
    }
    cleaning.failure.map_or(Ok(cleaning.rows), Err)
}

/// The progress of deleting expired rows.
struct CleanupPass<'a> {
    app: &'a App,
    rows: u64,
    /// Whether a batch was full, so that there may be more rows.
    more: bool,
    failure: Option<anyhow::Error>,
}

impl CleanupPass<'_> {
    /// Deletes one batch from every table.
    async fn pass(&mut self, now: Timestamp) {
        let batch = Batch { now, size: BATCH_ROWS };
        let before = |seconds: i64| later(now, -seconds);
        self.delete("otps", async |db| store::otps::delete_expired(db, batch).await).await;
        self.delete("devices", async |db| store::devices::delete_expired(db, batch).await).await;
        self.delete("user_devices", async |db| store::user_devices::delete_expired(db, batch).await).await;
        self.delete("recent_hits", async |db| store::recent_hits::delete_expired(db, batch).await).await;
        self.delete("rates", async |db| store::rates::delete_expired(db, batch).await).await;
        self.delete("outbox", async |db| store::outbox::delete_expired(db, batch).await).await;
        let (private, public) = (before(lifetimes::RETIRED_PRIVATE_KEY), before(lifetimes::RETIRED_PUBLIC_KEY));
        let erased = rotate_signing_keys::erase_private_keys(self.app, private).await;
        self.count(BATCH_ROWS, "signing_keys", erased);
        self.delete("signing_keys", async |db| store::signing_keys::delete_expired(db, public, BATCH_ROWS).await).await;
        self.delete("revocations", async |db| store::revocations::delete_expired(db, batch).await).await;
        self.delete("browser_sessions", async |db| store::browser_sessions::delete_expired(db, batch).await).await;
        let idle_since = browser_session::idle_since(now);
        self.delete("browser_sessions", async |db| {
            store::browser_sessions::delete_unseen(db, idle_since, BATCH_ROWS).await
        })
        .await;
        let unused = before(lifetimes::UNUSED_CLIENT);
        self.delete("clients", async |db| store::clients::delete_unused(db, unused, BATCH_ROWS).await).await;
        self.delete("sign_in_flows", async |db| store::sign_in_flows::delete_expired(db, batch).await).await;
        let used_up = before(lifetimes::AUTHORIZATION_CODE_KEPT);
        self.delete("authorization_codes", async |db| {
            store::authorization_codes::delete_expired(db, used_up, BATCH_ROWS).await
        })
        .await;
        self.delete("client_assertions", async |db| store::client_assertions::delete_expired(db, batch).await).await;
        self.delete("invitations", async |db| store::invitations::delete_expired(db, batch).await).await;
        self.delete("received_invitations", async |db| store::received_invitations::delete_expired(db, batch).await)
            .await;
        self.delete("sent_invitations", async |db| store::sent_invitations::delete_expired(db, batch).await).await;
        let repeatable = before(lifetimes::IDEMPOTENCY_KEY);
        self.delete("idempotency_keys", async |db| {
            store::idempotency_keys::delete_expired(db, repeatable, BATCH_ROWS).await
        })
        .await;
        let known = before(lifetimes::DELETION_KNOWN);
        self.delete_up_to(DELETIONS_BATCH_ROWS, "deletions", async |db| {
            store::deletions::delete_expired(db, known, DELETIONS_BATCH_ROWS).await
        })
        .await;
        let listed = before(lifetimes::CLI_TOKEN_LISTED);
        self.delete("cli_tokens", async |db| store::cli_tokens::delete_expired(db, listed, BATCH_ROWS).await).await;
        let silent = before(lifetimes::SILENT_NODE);
        self.delete("node_heartbeats", async |db| store::node_heartbeats::delete_silent(db, silent, BATCH_ROWS).await)
            .await;
    }

    /// Deletes one batch from a table.
    async fn delete(&mut self, table: &str, batch: impl AsyncFnOnce(&Connection) -> Result<u64, Error>) {
        self.delete_up_to(BATCH_ROWS, table, batch).await;
    }

    /// Deletes one batch of this size from a table.
    async fn delete_up_to(
        &mut self,
        size: i64,
        table: &str,
        batch: impl AsyncFnOnce(&Connection) -> Result<u64, Error>,
    ) {
        let deleted = match self.app.background_database.connect().await {
            Ok(db) => batch(&db).await,
            Err(error) => Err(error),
        };
        self.count(size, table, deleted.map_err(anyhow::Error::from));
    }

    /// Counts deleted rows, or records the failure.
    fn count(&mut self, size: i64, table: &str, deleted: anyhow::Result<u64>) {
        match deleted {
            Ok(rows) => {
                self.rows += rows;
                self.more |= rows >= size.unsigned_abs();
            }
            Err(error) => {
                tracing::warn!(table, error = format!("{error:#}"), "Could not delete the expired rows of one table");
                self.failure.get_or_insert(error.context(format!("could not delete expired rows of {table}")));
            }
        }
    }
}
