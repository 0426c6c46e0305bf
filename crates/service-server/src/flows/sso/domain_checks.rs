//! The weekly check of verified domains.
//!
//! 1. A node claims the domains that are due, so that no other node checks them at the same time.
//! 2. It asks DNS for each, outside of a transaction.
//! 3. The rule judges. After the first failure the owners of the workspace get a mail; after the third in a row the domain no
//!    longer counts, and its users sign in by code again.

use serde_json::json;
use service_api::audit_events::EventName;
use service_rules::{
    Timestamp,
    domains::{CheckVerdict, FAILURES_UNTIL_LOST, Looked, Standing, has_record, judge_check},
    lifetimes,
    signing::later,
};

use crate::{
    app::App,
    database::Connection,
    flows::{node_event, sign_in::email_key, sso::routes},
    mail::Email,
    net::dns::Unanswered,
    store::{self, Batch, workspace_domains::StoredDomain},
};

const DOMAINS_PER_BATCH: i64 = 20;
/// When a domain is due again if the node that claimed it dies.
const CHECK_LEASE_SECONDS: i64 = 600;
/// How long a mail about a domain may take to be sent.
const MAIL_KEPT_SECONDS: i64 = 3 * 86_400;

/// Why a workspace loses a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// The record was not found three times in a row.
    RecordMissing,
    /// Another workspace has proved the domain, and the record of this one is gone.
    TakenOver,
}

/// Asks DNS for the TXT records of a domain, and counts the lookups that were not answered.
pub(super) async fn look_up(app: &App, domain: &str) -> Result<Vec<String>, Unanswered> {
    let found = app.dns.txt_records(domain).await;
    if let Err(error) = &found {
        app.metrics.domain_checked("unanswered");
        tracing::info!(error = error.to_string(), "DNS did not answer for a domain");
    }
    found
}

/// Checks every domain that is due. A check that fails does not stop the others.
pub async fn check_due(app: &App) -> anyhow::Result<()> {
    let mut failure = None;
    loop {
        let now = app.clock.now();
        let db = app.background_database.begin().await?;
        anyhow::ensure!(
            !app.clock.is_off(now, store::database_time(&db).await?),
            "this node's clock differs from the database's"
        );
        let batch = Batch { now, size: DOMAINS_PER_BATCH };
        let due = store::workspace_domains::claim_due(&db, batch, later(now, CHECK_LEASE_SECONDS)).await?;
        db.commit().await?;
        if due.is_empty() || app.stop.is_cancelled() {
            return failure.map_or(Ok(()), Err);
        }
        for domain in &due {
            if let Err(error) = check(app, domain).await {
                failure.get_or_insert(error);
            }
        }
        app.mail_waiting.notify_one();
    }
}

async fn check(app: &App, claimed: &StoredDomain) -> anyhow::Result<()> {
    let texts = look_up(app, &claimed.domain).await;
    let now = app.clock.now();
    let db = app.background_database.begin().await?;
    let holder = routes::lock(app, &db, &claimed.domain).await?;
    let stored = store::workspace_domains::find(&db, claimed.workspace_id, &claimed.domain).await?;
    let Some(mut stored) = stored.filter(|_| holder == Some(claimed.workspace_id)) else { return Ok(()) };
    let value = email_key::record_value(app, &db, &stored).await?;
    let looked = match &texts {
        Ok(texts) if has_record(texts, &value) => Looked::Found,
        Ok(_) => Looked::Missing,
        Err(_) => Looked::Unanswered,
    };
    if looked != Looked::Unanswered {
        app.metrics.domain_checked(if looked == Looked::Found { "found" } else { "missing" });
    }
    let standing = Standing { failures: stored.failures, checked_at: stored.checked_at.unwrap_or(stored.created_at) };
    let why = || Some(if looked == Looked::Missing { missing(&stored.domain) } else { unanswered(&stored.domain) });
    match judge_check(standing, looked, now) {
        CheckVerdict::Confirmed { next_check_at } => {
            stored = StoredDomain {
                checked_at: Some(now),
                next_check_at: Some(next_check_at),
                failures: 0,
                last_error: None,
                ..stored
            };
        }
        CheckVerdict::Postponed { next_check_at } => {
            stored = StoredDomain { last_error: why(), next_check_at: Some(next_check_at), ..stored };
        }
        CheckVerdict::Failing { failures, notify, next_check_at } => {
            let last_error = why();
            // Without an answer, the last answer stays the last one.
            let checked_at = if looked == Looked::Missing { Some(now) } else { stored.checked_at };
            stored = StoredDomain { checked_at, next_check_at: Some(next_check_at), failures, last_error, ..stored };
            if notify {
                notify_owners(app, &db, &stored, None, now).await?;
            }
        }
        CheckVerdict::Lost { .. } => {
            routes::remove(app, &db, stored.workspace_id, &stored.domain).await?;
            lose(app, &db, stored, Loss::RecordMissing, now).await?;
            return Ok(db.commit().await?);
        }
    }
    store::workspace_domains::update_check(&db, &stored).await?;
    Ok(db.commit().await?)
}

/// Records that a workspace has lost a domain, and writes to its owners. The caller deletes the route.
pub(super) async fn lose(
    app: &App,
    db: &Connection,
    mut lost: StoredDomain,
    loss: Loss,
    now: Timestamp,
) -> anyhow::Result<()> {
    (lost.verified_at, lost.next_check_at, lost.failures) = (None, None, FAILURES_UNTIL_LOST);
    lost.checked_at = Some(now);
    lost.last_error = Some(match loss {
        Loss::RecordMissing => missing(&lost.domain),
        Loss::TakenOver => format!(
            "Another workspace has verified {}, because its TXT record was there and the one of this workspace was not.",
            lost.domain
        ),
    });
    store::workspace_domains::update_check(db, &lost).await?;
    let details = json!({ "domain": lost.domain, "takenOver": loss == Loss::TakenOver });
    node_event(EventName::DomainLost, now, details)?.in_workspace(lost.workspace_id).insert(db).await?;
    notify_owners(app, db, &lost, Some(loss), now).await
}

/// Writes to the owners of a workspace that a domain is failing or lost.
async fn notify_owners(
    app: &App,
    db: &Connection,
    domain: &StoredDomain,
    loss: Option<Loss>,
    now: Timestamp,
) -> anyhow::Result<()> {
    let value = email_key::record_value(app, db, domain).await?;
    for owner in store::members::list_owners(db, domain.workspace_id).await? {
        let (to, name, record) = (owner.email, domain.domain.clone(), value.clone());
        let mail = match loss {
            None => {
                let lost_at = later(now, lifetimes::DOMAIN_CHECK * i64::from(FAILURES_UNTIL_LOST - 1));
                Email::DomainFailing { to, domain: name, record, lost_at }
            }
            Some(loss) => Email::DomainLost { to, domain: name, record, taken_over: loss == Loss::TakenOver },
        };
        mail.enqueue(&app.root_keys, db, now, later(now, MAIL_KEPT_SECONDS)).await?;
    }
    Ok(())
}

/// What owners read about a record that is not there.
pub(super) fn missing(domain: &str) -> String {
    format!(
        "The TXT record of this workspace was not found at {domain}. Add it as shown. DNS can take up to an hour to show a \
         change."
    )
}

fn unanswered(domain: &str) -> String {
    format!("DNS did not answer for {domain}. Check that its name servers work.")
}
