//! The monthly partitions of the audit events: each is created before it is needed, and dropped when its retention ends.

use jiff::{Span, civil::Date, tz::TimeZone};
use service_rules::{Timestamp, signing::later};

use crate::{
    app::App,
    audit::chain::{EventSummary, Seal, SealDraft, Transactions},
    flows::audit::sealing,
    store,
};

/// Months whose partitions are created ahead of time.
const MONTHS_AHEAD: i32 = 2;

/// Creates the partitions that are missing, and drops those whose retention has ended.
pub async fn keep(app: &App) -> anyhow::Result<()> {
    let db = app.background_database.connect().await?;
    let (database_time, now) = (store::database_time(&db).await?, app.clock.now());
    // A month that a wrong clock drops is lost.
    anyhow::ensure!(!app.clock.is_off(now, database_time), "this node's clock differs from the database's");
    let there = store::audit_months::list(&db).await?;
    let missing = store::audit_months::list_missing(&db).await?;
    drop(db);
    let kept_since = later(now, -app.config.audit.keep);
    for month in there.iter().filter(|month| begins_after(**month) <= kept_since) {
        drop_month(app, *month, now).await?;
    }
    // Those ahead first: no transaction writes to them yet.
    let ahead =
        (0..=MONTHS_AHEAD).rev().filter_map(|months| month_of(now).checked_add(Span::new().months(months)).ok());
    for month in ahead.chain(missing).filter(|month| !there.contains(month)) {
        create_month(app, month).await?;
    }
    Ok(())
}

async fn create_month(app: &App, month: Date) -> anyhow::Result<()> {
    let db = app.background_database.begin().await?;
    // Rows that move into the new partition must not be sealed meanwhile, because some could be missed.
    if store::audit_seals::try_lock(&db).await?.is_some() {
        store::audit_months::create_month(&db, month).await?;
        db.commit().await?;
    }
    Ok(())
}

/// Drops a month, and records that in the chain of seals. A month that is missing without such a seal was removed by an
/// attacker.
async fn drop_month(app: &App, month: Date, now: Timestamp) -> anyhow::Result<()> {
    let db = app.background_database.begin().await?;
    if store::audit_seals::try_lock(&db).await?.is_none() {
        return Ok(());
    }
    let last = sealing::end_of_chain(app, &db).await?;
    if !store::audit_months::drop_month(&db, month).await? {
        return Ok(());
    }
    let range = last.as_ref().map_or(Transactions { numbering: 0, from: 0, to: 0 }, |last| last.range);
    let contents = EventSummary { events: 0, span: None, digest: Vec::new() };
    let seal = Seal::make(&app.root_keys, last.as_ref(), SealDraft { month, dropped: true, range, contents }, now);
    store::audit_seals::insert(&db, &seal).await?;
    db.commit().await?;
    tracing::info!(%month, anchor = seal.anchor(), "Dropped a month of audit events: it need not be kept any longer");
    Ok(())
}

/// The first day of the month in which a moment lies.
fn month_of(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date().first_of_month()
}

/// When a month begins.
#[must_use]
pub fn begins(month: Date) -> Timestamp {
    month.to_zoned(TimeZone::UTC).map_or(Timestamp::MIN, |day| day.timestamp())
}

/// When the next month begins.
#[must_use]
pub fn begins_after(month: Date) -> Timestamp {
    month.checked_add(Span::new().months(1)).map_or(Timestamp::MAX, begins)
}
