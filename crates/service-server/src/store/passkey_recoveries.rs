//! Table `passkey_recoveries`: users whose passkeys will be removed, because they have lost them. A row is in the shard of the
//! user.

use service_api::ids::{Id as _, UserId};
use service_rules::Timestamp;
use uuid::Uuid;

use crate::{
    database::{Connection, Error},
    store::Batch,
};

/// Begins a recovery; `false`: one is under way.
pub async fn insert(db: &Connection, user_id: UserId, now: Timestamp, due_at: Timestamp) -> Result<bool, Error> {
    let inserted = db
        .execute(
            r"insert into passkey_recoveries (user_id, shard, begun_at, due_at) values ($1, $2, $3, $4)
              on conflict (user_id, shard) do nothing",
            &[&user_id.uuid(), &user_id.shard().number(), &now, &due_at],
        )
        .await?;
    Ok(inserted == 1)
}

/// Returns when the passkeys of a user will be removed; `None`: no recovery is under way.
pub async fn find(db: &Connection, user_id: UserId) -> Result<Option<Timestamp>, Error> {
    let sql = r"select due_at from passkey_recoveries where user_id = $1 and shard = $2";
    let row = db.query_opt(sql, &[&user_id.uuid(), &user_id.shard().number()]).await?;
    row.map(|row| Ok(row.try_get("due_at")?)).transpose()
}

/// Stops a recovery; `false`: none was under way.
pub async fn delete(db: &Connection, user_id: UserId) -> Result<bool, Error> {
    let sql = r"delete from passkey_recoveries where user_id = $1 and shard = $2";
    Ok(db.execute(sql, &[&user_id.uuid(), &user_id.shard().number()]).await? == 1)
}

/// Ends a recovery that is due; returns when it was begun. `None`: it was stopped, or another node ended it.
pub async fn delete_due(db: &Connection, user_id: UserId, now: Timestamp) -> Result<Option<Timestamp>, Error> {
    let sql = r"delete from passkey_recoveries where user_id = $1 and shard = $2 and due_at <= $3 returning begun_at";
    let row = db.query_opt(sql, &[&user_id.uuid(), &user_id.shard().number(), &now]).await?;
    row.map(|row| Ok(row.try_get("begun_at")?)).transpose()
}

/// Deletes all recoveries, in batches.
pub async fn delete_all(db: &Connection) -> Result<(), Error> {
    const BATCH: i64 = 1_000;
    let sql = r"/* housekeeping */ delete from passkey_recoveries where user_id in
                    (select user_id from passkey_recoveries limit $1)";
    while db.execute(sql, &[&BATCH]).await? > 0 {}
    Ok(())
}

/// Returns users whose recovery is due, the longest due first.
pub async fn list_due(db: &Connection, batch: Batch) -> Result<Vec<UserId>, Error> {
    let sql = r"/* housekeeping */ select user_id from passkey_recoveries where due_at <= $1 order by due_at limit $2";
    let rows = db.query(sql, &[&batch.now, &batch.size]).await?;
    rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("user_id")?.into())).collect()
}
