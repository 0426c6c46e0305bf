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
        account::{address_change::due, deletion::erasure},
        audit::{keys, partitions, sealing},
        oauth::consents,
        operations::retention,
        rotate_signing_keys,
        sign_in::{browser_session, passkey_recovery},
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

/// Reloads the signing keys periodically, so that this node knows a new key before the key signs, and when the database
/// answers again.
pub async fn follow_signing_keys(app: App, progress: Progress) {
    loop {
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = app.signing_keys.reload_requested.notified() => {}
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
pub async fn clean_all(app: &App) -> bool {
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
    check(passkey_recovery::end_due(app).await.map(drop), "Could not remove the passkeys of users who have lost them");
    check(due::change_due(app).await.map(drop), "Could not change the email addresses that are due");
    check(erasure::erase_due(app).await.map(drop), "Could not erase the accounts that are due");
    check(consents::expire(app).await.map(drop), "Could not delete unused consents");
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

/// Deletes all expired rows; returns how many. A table that fails does not stop the others. The first failure is returned at
/// the end.
pub async fn clean_once(app: &App) -> anyhow::Result<u64> {
    let db = app.background_database.connect().await?;
    let (database_time, now) = (store::database_time(&db).await?, app.clock.now());
    drop(db);
    // By a wrong clock, rows would be deleted that are still needed: codes, mails and revocations.
    anyhow::ensure!(!app.clock.is_off(now, database_time), "this node's clock differs from the database's");
    let mut cleaning = Cleaning { app, rows: 0, failure: None };
    let retired_before = later(now, -lifetimes::RETIRED_PRIVATE_KEY);
    cleaning.count("signing_keys", rotate_signing_keys::erase_private_keys(app, retired_before).await);
    for (table, expired) in EXPIRED_ROWS {
        cleaning.delete(table, expired, now).await;
    }
    cleaning.failure.map_or(Ok(cleaning.rows), Err)
}

/// Rows that are deleted in batches.
#[derive(Clone, Copy)]
enum Expired {
    Otps,
    Devices,
    UserDevices,
    RecentHits,
    Rates,
    Outbox,
    SuppressedAddresses,
    SigningKeys,
    Revocations,
    BrowserSessions,
    UnseenBrowserSessions,
    Clients,
    SignInFlows,
    SignInReports,
    AccountExports,
    AddressChanges,
    AuthorizationCodes,
    ClientAssertions,
    LogoutTokens,
    Invitations,
    ReceivedInvitations,
    SentInvitations,
    IdempotencyKeys,
    Deletions,
    Confirmations,
    CliTokens,
    Memberships,
    Members,
    Connections,
    NodeHeartbeats,
}

/// The tables in the order in which they are cleaned.
const EXPIRED_ROWS: [(&str, Expired); 30] = [
    ("otps", Expired::Otps),
    ("devices", Expired::Devices),
    ("user_devices", Expired::UserDevices),
    ("recent_hits", Expired::RecentHits),
    ("rates", Expired::Rates),
    ("outbox", Expired::Outbox),
    ("suppressed_addresses", Expired::SuppressedAddresses),
    ("signing_keys", Expired::SigningKeys),
    ("revocations", Expired::Revocations),
    ("browser_sessions", Expired::BrowserSessions),
    ("browser_sessions", Expired::UnseenBrowserSessions),
    ("clients", Expired::Clients),
    ("sign_in_flows", Expired::SignInFlows),
    ("sign_in_reports", Expired::SignInReports),
    ("account_exports", Expired::AccountExports),
    ("address_changes", Expired::AddressChanges),
    ("authorization_codes", Expired::AuthorizationCodes),
    ("client_assertions", Expired::ClientAssertions),
    ("logout_tokens", Expired::LogoutTokens),
    ("invitations", Expired::Invitations),
    ("received_invitations", Expired::ReceivedInvitations),
    ("sent_invitations", Expired::SentInvitations),
    ("idempotency_keys", Expired::IdempotencyKeys),
    ("deletions", Expired::Deletions),
    ("confirmations", Expired::Confirmations),
    ("cli_tokens", Expired::CliTokens),
    ("memberships", Expired::Memberships),
    ("members", Expired::Members),
    ("connections", Expired::Connections),
    ("node_heartbeats", Expired::NodeHeartbeats),
];

impl Expired {
    /// The size of a batch.
    const fn batch_rows(self) -> i64 {
        match self {
            Self::Deletions => DELETIONS_BATCH_ROWS,
            _ => BATCH_ROWS,
        }
    }

    /// Deletes one batch.
    async fn delete_batch(self, db: &Connection, now: Timestamp) -> Result<u64, Error> {
        let size = self.batch_rows();
        let (batch, before) = (Batch { now, size }, |seconds: i64| later(now, -seconds));
        match self {
            Self::Otps => store::otps::delete_expired(db, batch).await,
            Self::Devices => store::devices::delete_expired(db, batch).await,
            Self::UserDevices => store::user_devices::delete_expired(db, batch).await,
            Self::RecentHits => store::recent_hits::delete_expired(db, batch).await,
            Self::Rates => store::rates::delete_expired(db, batch).await,
            Self::Outbox => store::outbox::delete_expired(db, batch).await,
            Self::SuppressedAddresses => {
                store::suppressed_addresses::delete_expired(db, before(lifetimes::SUPPRESSION_KNOWN), size).await
            }
            Self::SigningKeys => {
                store::signing_keys::delete_expired(db, before(lifetimes::RETIRED_PUBLIC_KEY), size).await
            }
            Self::Revocations => store::revocations::delete_expired(db, batch).await,
            Self::BrowserSessions => store::browser_sessions::delete_expired(db, batch).await,
            Self::UnseenBrowserSessions => {
                store::browser_sessions::delete_unseen(db, browser_session::idle_since(now), size).await
            }
            Self::Clients => {
                let (unused, abandoned) = (before(lifetimes::UNUSED_CLIENT), before(lifetimes::ABANDONED_CLIENT));
                store::clients::delete_unused(db, unused, abandoned, size).await
            }
            Self::SignInFlows => store::sign_in_flows::delete_expired(db, batch).await,
            Self::SignInReports => store::sign_in_reports::delete_expired(db, batch).await,
            Self::AccountExports => store::account_exports::delete_expired(db, batch).await,
            Self::AddressChanges => store::address_changes::delete_expired(db, batch).await,
            Self::AuthorizationCodes => {
                store::authorization_codes::delete_expired(db, before(lifetimes::AUTHORIZATION_CODE_KEPT), size).await
            }
            Self::ClientAssertions => store::client_assertions::delete_expired(db, batch).await,
            Self::LogoutTokens => store::logout_tokens::delete_expired(db, batch).await,
            Self::Invitations => store::invitations::delete_expired(db, batch).await,
            Self::ReceivedInvitations => store::received_invitations::delete_expired(db, batch).await,
            Self::SentInvitations => store::sent_invitations::delete_expired(db, batch).await,
            Self::IdempotencyKeys => {
                store::idempotency_keys::delete_expired(db, before(lifetimes::IDEMPOTENCY_KEY), size).await
            }
            Self::Deletions => store::deletions::delete_expired(db, before(lifetimes::DELETION_KNOWN), size).await,
            Self::Confirmations => store::confirmations::delete_expired(db, batch).await,
            Self::CliTokens => store::cli_tokens::delete_expired(db, before(lifetimes::CLI_TOKEN_LISTED), size).await,
            Self::Memberships => store::memberships::delete_ended(db, before(lifetimes::ENDED_KEPT), size).await,
            Self::Members => store::members::delete_ended(db, before(lifetimes::ENDED_KEPT), size).await,
            Self::Connections => store::connections::delete_deleted(db, before(lifetimes::ENDED_KEPT), size).await,
            Self::NodeHeartbeats => {
                store::node_heartbeats::delete_silent(db, before(lifetimes::SILENT_NODE), size).await
            }
        }
    }
}

/// The progress of deleting expired rows.
struct Cleaning<'a> {
    app: &'a App,
    rows: u64,
    failure: Option<anyhow::Error>,
}

impl Cleaning<'_> {
    /// Deletes batches until one is not full. Each has a connection and a deadline of its own. A batch that fails ends the
    /// work on its table only.
    async fn delete(&mut self, table: &str, expired: Expired, now: Timestamp) {
        while !self.app.stop.is_cancelled() {
            let deleted = match self.app.background_database.connect().await {
                Ok(db) => expired.delete_batch(&db, now).await,
                Err(error) => Err(error),
            };
            let is_full = matches!(deleted, Ok(rows) if rows >= expired.batch_rows().unsigned_abs());
            self.count(table, deleted.map_err(anyhow::Error::from));
            if !is_full {
                return;
            }
        }
    }

    /// Counts deleted rows, or records the failure.
    fn count(&mut self, table: &str, deleted: anyhow::Result<u64>) {
        match deleted {
            Ok(rows) => self.rows += rows,
            Err(error) => {
                tracing::warn!(table, error = format!("{error:#}"), "Could not delete the expired rows of one table");
                self.failure.get_or_insert(error.context(format!("could not delete expired rows of {table}")));
            }
        }
    }
}
