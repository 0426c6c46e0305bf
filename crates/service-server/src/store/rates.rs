//! Table `rates`: limits as a steady rate with a burst (GCRA), each decided by one guarded statement.

use service_rules::{Timestamp, limits::Rate};

use crate::database::{Connection, Error};

/// Records an arrival if the rate allows it; `false`: it does not, and nothing was recorded.
pub async fn take(db: &Connection, key: &[u8], rate: Rate, now: Timestamp) -> Result<bool, Error> {
    let taken = db
        .execute(
            r"insert into rates as kept (key, tat) values ($1, $2::timestamptz + make_interval(secs => $3))
              on conflict (key) do update set tat = greatest(kept.tat, $2) + make_interval(secs => $3)
               where greatest(kept.tat, $2) + make_interval(secs => $3) <= $2 + make_interval(secs => $4)",
            &[&key, &now, &rate.interval(), &rate.tolerance()],
        )
        .await?;
    Ok(taken == 1)
}

/// The theoretical arrival time; `None`: nothing arrived lately.
pub async fn find(db: &Connection, key: &[u8]) -> Result<Option<Timestamp>, Error> {
    let row = db.query_opt(r"select tat from rates where key = $1", &[&key]).await?;
    row.map(|row| Ok(row.try_get("tat")?)).transpose()
}

pub async fn delete_expired(db: &Connection, batch: super::Batch) -> Result<u64, Error> {
    db.execute(
        r"delete from rates where key in
              (select key from rates where tat <= $1 order by tat limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}
