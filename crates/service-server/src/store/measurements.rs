//! What operators watch: mails that wait, and the sizes of tables.

use service_rules::Timestamp;
use uuid::Uuid;

use crate::database::{Connection, Error};

/// Mails that wait.
pub struct WaitingMails {
    /// How many, up to the limit.
    pub count: i64,
    /// The first that was put into the outbox.
    pub oldest: Option<Uuid>,
}

/// The size of a table with its partitions and indexes.
pub struct TableSize {
    pub table: String,
    /// As PostgreSQL estimates it.
    pub rows: i64,
    pub bytes: i64,
}

/// Counts the mails in the outbox whose next attempt is before `before`, up to `limit` of them.
pub async fn count_mails(db: &Connection, before: Timestamp, limit: i64) -> Result<WaitingMails, Error> {
    let row = db
        .query_opt(
            r"/* housekeeping */
              select (select count(*) from (select from outbox where next_attempt_at < $2 limit $1) o) as waiting,
                     (select id from outbox where next_attempt_at < $2 order by id limit 1) as oldest",
            &[&limit, &before],
        )
        .await?
        .ok_or_else(|| super::impossible("outbox", "id"))?;
    Ok(WaitingMails { count: row.try_get("waiting")?, oldest: row.try_get("oldest")? })
}

/// Returns the size of every table. Partitions are added up.
pub async fn list_tables(db: &Connection) -> Result<Vec<TableSize>, Error> {
    let rows = db
        .query(
            r"select root.relname::text as table, sum(greatest(part.reltuples, 0))::bigint as rows,
                     coalesce(sum(pg_total_relation_size(part.oid)), 0)::bigint as bytes
                from pg_class root
                cross join lateral pg_partition_tree(root.oid) tree
                join pg_class part on part.oid = tree.relid
               where root.relkind = 'p' and not root.relispartition and tree.isleaf
                 and root.relnamespace = current_schema::regnamespace
               group by root.relname
               union all
              select c.relname::text, greatest(c.reltuples, 0)::bigint, coalesce(pg_total_relation_size(c.oid), 0)
                from pg_class c
               where c.relkind = 'r' and not c.relispartition and c.relnamespace = current_schema::regnamespace",
            &[],
        )
        .await?;
    rows.iter()
        .map(|row| {
            Ok(TableSize { table: row.try_get("table")?, rows: row.try_get("rows")?, bytes: row.try_get("bytes")? })
        })
        .collect()
}
