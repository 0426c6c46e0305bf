//! The months of the audit events: each begins before it is needed, and ends when it need not be kept any longer.

use jiff::{Span, civil::Date, tz::TimeZone};
use service_rules::{Timestamp, signing::later};

use crate::{
    app::App,
    audit_chain::{Contents, Draft, Seal, Transactions},
    flows::seal_audit,
    store,
};

/// Months that are begun ahead of time.
const AHEAD: i32 = 2;

pub async fn keep(app: &App) -> anyhow::Result<()> {
    let db = app.database.connect().await?;
    let (database_time, now) = (store::database_time(&db).await?, app.clock.now());
    // A month that is dropped by a clock that is wrong is gone.
    anyhow::ensure!(!app.clock.is_off(now, database_time), "this node's clock differs from the database's");
    let there = store::audit_months::list(&db).await?;
    let missing = store::audit_months::list_missing(&db).await?;
    drop(db);
    let kept_since = later(now, -app.config.audit.keep);
    for month in there.iter().filter(|month| begins_after(**month) <= kept_since) {
        drop_month(app, *month, now).await?;
    }
    // Those ahead first: nobody writes to them yet.
    let ahead = (0..=AHEAD).rev().filter_map(|months| month_of(now).checked_add(Span::new().months(months)).ok());
    for month in ahead.chain(missing).filter(|month| !there.contains(month)) {
        begin_month(app, month).await?;
    }
    Ok(())
}

async fn begin_month(app: &App, month: Date) -> anyhow::Result<()> {
    let db = app.database.begin().await?;
    // Rows that move into a month of their own must not be sealed meanwhile, when some could be missed.
    if store::audit_seals::try_lock(&db).await?.is_some() {
        store::audit_months::begin(&db, month).await?;
        db.commit().await?;
    }
    Ok(())
}

/// Drops a month, and says so in the chain of seals, so that nobody can have dropped it unnoticed.
async fn drop_month(app: &App, month: Date, now: Timestamp) -> anyhow::Result<()> {
    let db = app.database.begin().await?;
    if store::audit_seals::try_lock(&db).await?.is_none() {
        return Ok(());
    }
    let last = seal_audit::end_of_chain(app, &db).await?;
    if !store::audit_months::end(&db, month).await? {
        return Ok(());
    }
    let range = last.as_ref().map_or(Transactions { numbering: 0, from: 0, to: 0 }, |last| last.range);
    let contents = Contents { events: 0, span: None, digest: Vec::new() };
    let seal = Seal::make(&app.vault, last.as_ref(), Draft { month, dropped: true, range, contents }, now);
    store::audit_seals::insert(&db, &seal).await?;
    db.commit().await?;
    tracing::info!(%month, anchor = seal.anchor(), "Dropped a month of audit events: it need not be kept any longer");
    Ok(())
}

/// The first day of the month of a moment.
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
