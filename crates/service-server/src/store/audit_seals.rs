//! Table `audit_seals`, and the digests over `audit_events` that seals consist of.

use std::ops::Range;

use jiff::civil::Date;
use service_rules::Timestamp;
use tokio_postgres::Row;

use crate::{
    audit::chain::{EventSummary, Seal, Transactions},
    database::{Connection, Error},
};

/// Locks sealing until the transaction ends, and returns the id of the database's transaction numbering. `None`:
/// another node holds the lock.
pub async fn try_lock(db: &Connection) -> Result<Option<i64>, Error> {
    let row = db.query_opt(r"select numbering from audit_numbering for update skip locked", &[]).await?;
    Ok(row.map(|row| row.try_get("numbering")).transpose()?)
}

/// Records the id of the database's transaction numbering; `true`: it has changed.
pub async fn update_numbering(db: &Connection) -> Result<bool, Error> {
    let sql = r"update audit_numbering set numbering = system_identifier from pg_control_system()
                 where numbering <> system_identifier";
    Ok(db.execute(sql, &[]).await? == 1)
}

/// Returns the oldest transaction that is still running. All transactions below it have ended.
pub async fn find_oldest_running(db: &Connection) -> Result<i64, Error> {
    let row = db.query_opt(r"select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest", &[]).await?;
    Ok(row.ok_or_else(|| super::impossible("audit_seals", "number"))?.try_get("oldest")?)
}

/// Returns every numbering under which transactions wrote events.
pub async fn list_numberings(db: &Connection) -> Result<Vec<i64>, Error> {
    let rows = db
        .query(
            r"with recursive known as (
                  (select numbering from audit_events order by numbering limit 1)
                  union all
                  select (select e.numbering from audit_events e where e.numbering > known.numbering
                           order by e.numbering limit 1)
                    from known where known.numbering is not null)
              select numbering from known where numbering is not null",
            &[],
        )
        .await?;
    rows.iter().map(|row| Ok(row.try_get("numbering")?)).collect()
}

/// Returns the time of the oldest unsealed event that a transaction of `range` or a later one wrote.
pub async fn find_oldest_unsealed(db: &Connection, range: Transactions) -> Result<Option<Timestamp>, Error> {
    let row = db
        .query_opt(
            r"select at from audit_events where numbering = $1 and written_by >= $2 order by written_by limit 1",
            &[&range.numbering, &range.from],
        )
        .await?;
    Ok(row.map(|row| row.try_get("at")).transpose()?)
}

/// Disables the statement timeout for this transaction.
pub async fn disable_statement_timeout(db: &Connection) -> Result<(), Error> {
    db.execute(r"select set_config('statement_timeout', '0', true)", &[]).await.map(drop)
}

/// Returns the transaction that wrote the event `place` positions after the first of `range`.
pub async fn find_nth(db: &Connection, range: Transactions, place: i64) -> Result<Option<i64>, Error> {
    let row = db
        .query_opt(
            r"select written_by from audit_events
               where numbering = $1 and written_by >= $2 and written_by < $3
               order by written_by offset $4 limit 1",
            &[&range.numbering, &range.from, &range.to, &place],
        )
        .await?;
    Ok(row.map(|row| row.try_get("written_by")).transpose()?)
}

/// Returns the last transaction of a numbering that wrote an event.
pub async fn find_last(db: &Connection, numbering: i64) -> Result<Option<i64>, Error> {
    let row = db
        .query_opt(
            r"select written_by from audit_events where numbering = $1 order by written_by desc limit 1",
            &[&numbering],
        )
        .await?;
    Ok(row.map(|row| row.try_get("written_by")).transpose()?)
}

/// Returns a summary of the events that these transactions wrote, for each month or for one of them: their number and
/// their digest.
pub async fn read_contents(
    db: &Connection,
    range: Transactions,
    month: Option<Range<Timestamp>>,
) -> Result<Vec<(Date, EventSummary)>, Error> {
    let (since, until) = month.map_or((None, None), |month| (Some(month.start), Some(month.end)));
    let rows = db
        .query(
            r"select date_trunc('month', at at time zone 'UTC')::date as month, count(*)::integer as events,
                     min(at) as first_at, max(at) as last_at,
                     sha256(string_agg(
                         sha256(convert_to((jsonb_build_array(
                             id, (extract(epoch from at) * 1000000)::bigint, event, user_id, client_id, workspace_id,
                             subject, address, request_id, details)
                             || case when sealed_address is null and sealed_details is null then '[]'
                                     else jsonb_build_array(encode(sealed_address, 'hex'), encode(sealed_details, 'hex')) end
                         )::text, 'UTF8')),
                         ''::bytea order by written_by, id)) as digest
                from audit_events
               where numbering = $1 and written_by >= $2 and written_by < $3
                 and at >= coalesce($4::timestamptz, '-infinity') and at < coalesce($5::timestamptz, 'infinity')
               group by month order by month",
            &[&range.numbering, &range.from, &range.to, &since, &until],
        )
        .await?;
    let month = |row: &Row| Ok((row.try_get("month")?, contents(row)?));
    rows.iter().map(month).collect()
}

/// Counts all events.
pub async fn count(db: &Connection) -> Result<i64, Error> {
    let row = db.query_opt(r"select count(*) as events from audit_events", &[]).await?;
    Ok(row.ok_or_else(|| super::impossible("audit_events", "id"))?.try_get("events")?)
}

/// Counts the unsealed events that a transaction of `range` or a later one wrote. With `here`, only those of
/// transactions that this database has reached.
pub async fn count_waiting(db: &Connection, range: Transactions, here: bool) -> Result<i64, Error> {
    let row = db
        .query_opt(
            r"select count(*) as events from audit_events
               where numbering = $1 and written_by >= $2
                 and (not $3 or written_by < pg_snapshot_xmax(pg_current_snapshot())::text::bigint)",
            &[&range.numbering, &range.from, &here],
        )
        .await?;
    Ok(row.ok_or_else(|| super::impossible("audit_events", "id"))?.try_get("events")?)
}

/// Returns the id of the database's transaction numbering.
pub async fn find_numbering(db: &Connection) -> Result<i64, Error> {
    let row = db.query_opt(r"select numbering from audit_numbering", &[]).await?;
    Ok(row.ok_or_else(|| super::impossible("audit_numbering", "numbering"))?.try_get("numbering")?)
}

/// Whether a seal after number `after` records that a month was dropped.
pub async fn is_dropped(db: &Connection, month: Date, after: i64) -> Result<bool, Error> {
    let sql = r"select from audit_seals where dropped and month = $1 and number > $2";
    Ok(db.query_opt(sql, &[&month, &after]).await?.is_some())
}

/// Stores a seal.
pub async fn insert(db: &Connection, seal: &Seal) -> Result<(), Error> {
    db.execute(
        r"insert into audit_seals (number, month, dropped, numbering, from_transaction, to_transaction, events, digest,
                                   sealed_at, key_id, mac, link, first_at, last_at)
          values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
        &[
            &seal.number,
            &seal.month,
            &seal.dropped,
            &seal.range.numbering,
            &seal.range.from,
            &seal.range.to,
            &seal.contents.events,
            &seal.contents.digest,
            &seal.sealed_at,
            &i16::from(seal.key_id),
            &seal.mac,
            &seal.link,
            &seal.contents.span.map(|(first, _)| first),
            &seal.contents.span.map(|(_, last)| last),
        ],
    )
    .await
    .map(drop)
}

/// Returns the last seal and the one before it.
pub async fn find_end_of_chain(db: &Connection) -> Result<Vec<Seal>, Error> {
    let rows = db
        .query(
            r"select number, month, dropped, numbering, from_transaction, to_transaction, events, digest, sealed_at,
                     key_id, mac, link, first_at, last_at
                from audit_seals order by number desc limit 2",
            &[],
        )
        .await?;
    rows.iter().map(from_row).collect()
}

/// Returns the transaction up to which every event of this numbering is sealed.
pub async fn find_sealed_until(db: &Connection, numbering: i64) -> Result<i64, Error> {
    find_sealed_until_number(db, numbering, i64::MAX).await
}

/// Returns the transaction up to which seals with numbers up to `number` cover this numbering.
pub async fn find_sealed_until_number(db: &Connection, numbering: i64, number: i64) -> Result<i64, Error> {
    let row = db
        .query_opt(
            r"select to_transaction from audit_seals where numbering = $1 and number <= $2
               order by number desc limit 1",
            &[&numbering, &number],
        )
        .await?;
    Ok(row.map(|row| row.try_get("to_transaction")).transpose()?.unwrap_or_default())
}

/// Returns up to `limit` seals after number `after`.
pub async fn list(db: &Connection, after: i64, limit: i64) -> Result<Vec<Seal>, Error> {
    let rows = db
        .query(
            r"select number, month, dropped, numbering, from_transaction, to_transaction, events, digest, sealed_at,
                     key_id, mac, link, first_at, last_at
                from audit_seals where number > $1 order by number limit $2",
            &[&after, &limit],
        )
        .await?;
    rows.iter().map(from_row).collect()
}

fn from_row(row: &Row) -> Result<Seal, Error> {
    let range = Transactions {
        numbering: row.try_get("numbering")?,
        from: row.try_get("from_transaction")?,
        to: row.try_get("to_transaction")?,
    };
    Ok(Seal {
        number: row.try_get("number")?,
        month: row.try_get("month")?,
        dropped: row.try_get("dropped")?,
        range,
        contents: contents(row)?,
        sealed_at: row.try_get("sealed_at")?,
        key_id: u8::try_from(row.try_get::<_, i16>("key_id")?)
            .map_err(|_| super::impossible("audit_seals", "key_id"))?,
        mac: row.try_get("mac")?,
        link: row.try_get("link")?,
    })
}

fn contents(row: &Row) -> Result<EventSummary, Error> {
    let span = (row.try_get::<_, Option<Timestamp>>("first_at")?, row.try_get::<_, Option<Timestamp>>("last_at")?);
    Ok(EventSummary { events: row.try_get("events")?, span: span.0.zip(span.1), digest: row.try_get("digest")? })
}
