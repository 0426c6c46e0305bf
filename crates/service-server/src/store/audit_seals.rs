//! Table `audit_seals`, and the digests of `audit_events` that seals are made of.

use std::ops::Range;

use jiff::civil::Date;
use service_rules::Timestamp;
use tokio_postgres::Row;

use crate::{
    audit_chain::{Contents, Seal, Transactions},
    database::{Connection, Error},
};

/// Held by the node that seals; others leave it to that one.
const LOCK: i64 = 0x5e72_1ce0_0002;

/// Takes the right to seal until the transaction ends; `false`: somebody else has it.
pub async fn try_lock(db: &Connection) -> Result<bool, Error> {
    let row = db.query_opt(r"select pg_try_advisory_xact_lock($1) as taken", &[&LOCK]).await?;
    Ok(row.ok_or_else(|| super::impossible("audit_seals", "number"))?.try_get("taken")?)
}

/// Which database numbers transactions here, and the number below which all have ended.
pub async fn ended_transactions(db: &Connection) -> Result<Transactions, Error> {
    let row = db
        .query_opt(
            r"select audit_numbering() as numbering,
                     pg_snapshot_xmin(pg_current_snapshot())::text::bigint as ended",
            &[],
        )
        .await?
        .ok_or_else(|| super::impossible("audit_seals", "number"))?;
    Ok(Transactions { numbering: row.try_get("numbering")?, from: 0, to: row.try_get("ended")? })
}

/// The transaction that wrote the event so many places behind the first of `range`.
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

/// The last transaction of a numbering that wrote an event.
pub async fn find_last(db: &Connection, numbering: i64) -> Result<Option<i64>, Error> {
    let row = db
        .query_opt(
            r"select written_by from audit_events where numbering = $1 order by written_by desc limit 1",
            &[&numbering],
        )
        .await?;
    Ok(row.map(|row| row.try_get("written_by")).transpose()?)
}

/// What certain transactions wrote, month by month or in one of them: how many events, and the digest of them all.
pub async fn read_contents(
    db: &Connection,
    range: Transactions,
    month: Option<Range<Timestamp>>,
) -> Result<Vec<(Date, Contents)>, Error> {
    let (since, until) = month.map_or((None, None), |month| (Some(month.start), Some(month.end)));
    let rows = db
        .query(
            r"select date_trunc('month', at at time zone 'UTC')::date as month, count(*)::integer as events,
                     sha256(string_agg(
                         sha256(convert_to(jsonb_build_array(
                             id, (extract(epoch from at) * 1000000)::bigint, event, user_id, client_id, workspace_id,
                             subject, address, request_id, details)::text, 'UTF8')),
                         ''::bytea order by written_by, id)) as digest
                from audit_events
               where numbering = $1 and written_by >= $2 and written_by < $3
                 and at >= coalesce($4::timestamptz, '-infinity') and at < coalesce($5::timestamptz, 'infinity')
               group by month order by month",
            &[&range.numbering, &range.from, &range.to, &since, &until],
        )
        .await?;
    let month = |row: &Row| {
        let contents = Contents { events: row.try_get("events")?, digest: row.try_get("digest")? };
        Ok((row.try_get("month")?, contents))
    };
    rows.iter().map(month).collect()
}

/// How many events there are besides those that wait for a seal: those of an older numbering behind its last seal, and
/// those of this one behind its last seal, written by transactions that there have been.
pub async fn count_settled(db: &Connection, older: Transactions, here: Transactions) -> Result<i64, Error> {
    let row = db
        .query_opt(
            r"select count(*) as events from audit_events
               where not (numbering = $1 and written_by >= $2)
                 and not (numbering = $3 and written_by >= $4
                          and written_by < pg_snapshot_xmax(pg_current_snapshot())::text::bigint)",
            &[&older.numbering, &older.from, &here.numbering, &here.from],
        )
        .await?;
    Ok(row.ok_or_else(|| super::impossible("audit_events", "id"))?.try_get("events")?)
}

pub async fn insert(db: &Connection, seal: &Seal) -> Result<(), Error> {
    db.execute(
        r"insert into audit_seals (number, month, dropped, numbering, from_transaction, to_transaction, events, digest,
                                   sealed_at, key_id, mac)
          values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
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
        ],
    )
    .await
    .map(drop)
}

pub async fn find_youngest(db: &Connection) -> Result<Option<Seal>, Error> {
    let row = db
        .query_opt(
            r"select number, month, dropped, numbering, from_transaction, to_transaction, events, digest, sealed_at,
                     key_id, mac
                from audit_seals order by number desc limit 1",
            &[],
        )
        .await?;
    row.as_ref().map(from_row).transpose()
}

/// Up to which transaction of this numbering everything is sealed.
pub async fn find_end(db: &Connection, numbering: i64) -> Result<i64, Error> {
    let row = db
        .query_opt(
            r"select to_transaction from audit_seals where numbering = $1 and not dropped
               order by number desc limit 1",
            &[&numbering],
        )
        .await?;
    Ok(row.map(|row| row.try_get("to_transaction")).transpose()?.unwrap_or_default())
}

/// Up to `limit` seals behind number `after`.
pub async fn list(db: &Connection, after: i64, limit: i64) -> Result<Vec<Seal>, Error> {
    let rows = db
        .query(
            r"select number, month, dropped, numbering, from_transaction, to_transaction, events, digest, sealed_at,
                     key_id, mac
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
        contents: Contents { events: row.try_get("events")?, digest: row.try_get("digest")? },
        sealed_at: row.try_get("sealed_at")?,
        key_id: u8::try_from(row.try_get::<_, i16>("key_id")?)
            .map_err(|_| super::impossible("audit_seals", "key_id"))?,
        mac: row.try_get("mac")?,
    })
}
