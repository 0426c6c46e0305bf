//! The months that `audit_events` is kept by: beginning them ahead of time, and dropping those that are too old.

use jiff::civil::Date;

use crate::database::{Connection, Error};

/// Begins a month, unless it was begun.
pub async fn begin(db: &Connection, month: Date) -> Result<bool, Error> {
    let row = db.query_opt(r"select audit_month_begin($1) as begun", &[&month]).await?;
    Ok(row.ok_or_else(|| super::impossible("audit_events", "at"))?.try_get("begun")?)
}

/// Drops a month and everything that happened in it.
pub async fn end(db: &Connection, month: Date) -> Result<bool, Error> {
    let row = db.query_opt(r"select audit_month_end($1) as ended", &[&month]).await?;
    Ok(row.ok_or_else(|| super::impossible("audit_events", "at"))?.try_get("ended")?)
}

/// The months there are, oldest first.
pub async fn list(db: &Connection) -> Result<Vec<Date>, Error> {
    let rows = db
        .query(
            r"select to_date(right(relname, 7), 'YYYY_MM') as month
                from pg_inherits join pg_class on pg_class.oid = inhrelid
               where inhparent = 'audit_events'::regclass and relname ~ '^audit_events_[0-9]{4}_[0-9]{2}$'
               order by month",
            &[],
        )
        .await?;
    rows.iter().map(|row| Ok(row.try_get("month")?)).collect()
}

/// Months that events are of and that were not begun; a few at a time.
pub async fn list_missing(db: &Connection) -> Result<Vec<Date>, Error> {
    let rows = db
        .query(
            r"select distinct date_trunc('month', at at time zone 'UTC')::date as month
                from audit_events_of_no_month order by month limit 12",
            &[],
        )
        .await?;
    rows.iter().map(|row| Ok(row.try_get("month")?)).collect()
}
