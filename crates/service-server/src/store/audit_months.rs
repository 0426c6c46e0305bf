//! The monthly partitions of `audit_events`: creating them in advance, and dropping the old ones.

use jiff::civil::Date;

use crate::database::{Connection, Error};

/// Creates the partition of a month; `false`: it exists already.
pub async fn create_month(db: &Connection, month: Date) -> Result<bool, Error> {
    let row = db.query_opt(r"select audit_month_begin($1) as begun", &[&month]).await?;
    Ok(row.ok_or_else(|| super::impossible("audit_events", "at"))?.try_get("begun")?)
}

/// Drops the partition of a month with all its events.
pub async fn drop_month(db: &Connection, month: Date) -> Result<bool, Error> {
    let row = db.query_opt(r"select audit_month_end($1) as ended", &[&month]).await?;
    Ok(row.ok_or_else(|| super::impossible("audit_events", "at"))?.try_get("ended")?)
}

/// Returns the months that have a partition, oldest first.
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

/// Returns a few months that have events but no partition.
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
