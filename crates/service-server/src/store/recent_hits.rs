//! Table `recent_hits`: limits over exact time windows, each decided by one guarded statement.

use service_rules::{Timestamp, limits::Window};

use crate::database::{Connection, Error};

/// Counts a hit if every window has room for it; `false`: a window is full, and nothing is counted.
pub async fn take(db: &Connection, key: &[u8], windows: &[Window], now: Timestamp) -> Result<bool, Error> {
    let counts: Vec<i64> = windows.iter().map(|window| i64::from(window.count)).collect();
    let seconds: Vec<f64> = windows.iter().map(|window| f64::from(window.seconds)).collect();
    let longest = seconds.iter().copied().fold(0.0, f64::max);
    let taken = db
        .execute(
            r"insert into recent_hits as kept (key, shard, hits, forget_at)
              values ($1, $6, array[$2::timestamptz], $2::timestamptz + make_interval(secs => $5))
              on conflict (key, shard) do update
                 set hits = array(select hit from unnest(kept.hits) hit
                                   where hit > $2 - make_interval(secs => $5)) || $2,
                     forget_at = excluded.forget_at
               where not exists (
                     select from unnest($3::bigint[], $4::float8[]) as allowed (count, seconds)
                      where allowed.count <= (select count(*) from unnest(kept.hits) hit
                                               where hit > $2 - make_interval(secs => allowed.seconds)))",
            &[&key, &now, &counts, &seconds, &longest, &super::shard_of_key(key)],
        )
        .await?;
    Ok(taken == 1)
}

/// Takes back one hit that was counted at `at`.
pub async fn give_back(db: &Connection, key: &[u8], at: Timestamp) -> Result<(), Error> {
    db.execute(
        r"update recent_hits
             set hits = hits[:array_position(hits, $2) - 1] || hits[array_position(hits, $2) + 1:]
           where key = $1 and shard = $3 and $2 = any (hits)",
        &[&key, &at, &super::shard_of_key(key)],
    )
    .await
    .map(drop)
}

/// Returns the recent hits of a key.
pub async fn find(db: &Connection, key: &[u8]) -> Result<Vec<Timestamp>, Error> {
    let sql = r"select hits from recent_hits where key = $1 and shard = $2";
    let row = db.query_opt(sql, &[&key, &super::shard_of_key(key)]).await?;
    row.map_or(Ok(Vec::new()), |row| Ok(row.try_get("hits")?))
}

/// Forgets what was counted for a key.
pub async fn delete(db: &Connection, key: &[u8]) -> Result<(), Error> {
    let sql = r"delete from recent_hits where key = $1 and shard = $2";
    db.execute(sql, &[&key, &super::shard_of_key(key)]).await.map(drop)
}

/// Deletes a batch of rows that limit nothing any more.
pub async fn delete_expired(db: &Connection, batch: super::Batch) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from recent_hits where key in
              (select key from recent_hits where forget_at <= $1 order by forget_at limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}
