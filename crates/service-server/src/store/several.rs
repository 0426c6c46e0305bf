//! Several rows of a table by their ids, for requests that arrive together. Each statement touches the shards of its rows, which are
//! all in one database.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
    sync::Arc,
};

use service_api::ids::Id;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::database::{Connection, Error};

/// The rows that exist, each with the reason if it cannot be read.
pub type FoundRows<I, R> = HashMap<I, Result<Arc<R>, Error>>;

/// The statement that finds one row, by an id and its shard, for each of several.
///
/// The arrays are in subqueries, so that PostgreSQL does not plan for their lengths: it would plan the statement again each time,
/// which takes longer than running it.
pub(super) fn for_several(one: &str) -> String {
    let one = one.replace("$1", "wanted.id").replace("$2", "wanted.shard");
    format!(
        "/* shards of one database */ select wanted.id, found.*
           from unnest((select $1::uuid[]), (select $2::smallint[])) as wanted (id, shard), lateral ({one}) as found"
    )
}

/// Runs such a statement.
pub(super) async fn find<I: Id + Eq + Hash, R>(
    db: &Connection,
    statement: &str,
    ids: &[I],
    stored: fn(I, &Row) -> Result<R, Error>,
) -> Result<FoundRows<I, R>, Error> {
    let different: HashSet<I> = ids.iter().copied().collect();
    let (uuids, shards): (Vec<_>, Vec<_>) = different.iter().map(|id| (id.uuid(), id.shard().number())).unzip();
    let rows = db.query(statement, &[&uuids, &shards]).await?;
    let read = |row: &Row| {
        let id = I::from(row.try_get::<_, Uuid>("id")?);
        Ok((id, stored(id, row).map(Arc::new)))
    };
    rows.iter().map(read).collect()
}
