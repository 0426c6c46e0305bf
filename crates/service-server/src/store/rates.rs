//! Table `rates`: rate limits with a burst (GCRA), each decided by one guarded statement.

use service_rules::{Timestamp, limits::Rate};

use crate::database::{Connection, Error};

/// Counts an arrival if the rate allows it, and returns the new theoretical arrival time. `None`: the rate does not
/// allow it, and nothing is counted.
pub async fn take(db: &Connection, key: &[u8], rate: Rate, now: Timestamp) -> Result<Option<Timestamp>, Error> {
    let taken = db
        .query_opt(
            r"insert into rates as kept (key, shard, tat) values ($1, $5, $2::timestamptz + make_interval(secs => $3))
              on conflict (key, shard) do update set tat = greatest(kept.tat, $2) + make_interval(secs => $3)
               where greatest(kept.tat, $2) + make_interval(secs => $3) <= $2 + make_interval(secs => $4)
              returning tat",
            &[&key, &now, &rate.interval(), &rate.tolerance(), &super::shard_of_key(key)],
        )
        .await?;
    taken.map(|row| Ok(row.try_get("tat")?)).transpose()
}

/// Takes back this many arrivals, also a fraction of one. More than were counted give no more room than the burst.
pub async fn give_back(db: &Connection, key: &[u8], rate: Rate, arrivals: f64) -> Result<(), Error> {
    let sql = r"update rates set tat = tat - make_interval(secs => $2) where key = $1 and shard = $3";
    db.execute(sql, &[&key, &(rate.interval() * arrivals), &super::shard_of_key(key)]).await.map(drop)
}

/// Returns the theoretical arrival time; `None`: there was no recent arrival.
pub async fn find(db: &Connection, key: &[u8]) -> Result<Option<Timestamp>, Error> {
    let row = db
        .query_opt(r"select tat from rates where key = $1 and shard = $2", &[&key, &super::shard_of_key(key)])
        .await?;
    row.map(|row| Ok(row.try_get("tat")?)).transpose()
}

/// Forgets what was counted for a key.
pub async fn delete(db: &Connection, key: &[u8]) -> Result<(), Error> {
    let sql = r"delete from rates where key = $1 and shard = $2";
    db.execute(sql, &[&key, &super::shard_of_key(key)]).await.map(drop)
}

/// Deletes a batch of rows that limit nothing any more.
pub async fn delete_expired(db: &Connection, batch: super::Batch) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from rates where key in
              (select key from rates where tat <= $1 order by tat limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}
