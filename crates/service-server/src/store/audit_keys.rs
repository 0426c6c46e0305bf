//! Tables `audit_day_keys` and `audit_user_keys`: the keys that open the personal fields of audit events. Deleting a
//! key makes these fields unreadable.

use std::sync::Arc;

use jiff::civil::Date;
use service_api::ids::{Id as _, UserId};
use service_rules::Timestamp;
use uuid::Uuid;

use crate::{
    audit::keys::{AuditKey, AuditKeys},
    database::{Connection, Error},
};

/// Returns the key of a day, and creates it if there is none. Usually the key is in memory, and no query is needed.
///
/// A key that this transaction created is not cached, because the transaction may still be rolled back. The next
/// transaction reads the key again and caches it.
pub async fn find_or_create_day(db: &Connection, keys: &AuditKeys, day: Date) -> Result<Arc<AuditKey>, Error> {
    if let Some(key) = keys.cached_day(day) {
        return Ok(key);
    }
    if let Some(key) = read_day(db, keys, day).await? {
        return Ok(key);
    }
    insert_day(
        db,
        day,
        &keys.seal_day(day, &AuditKey::generate().map_err(|error| defect(&error))?).map_err(|error| defect(&error))?,
    )
    .await?;
    // Another node may have inserted its key first. Then that key is the one to use.
    read_day(db, keys, day).await?.ok_or_else(|| super::impossible("audit_day_keys", "day"))
}

/// Reads the key of a day, and caches it if its row is committed.
async fn read_day(db: &Connection, keys: &AuditKeys, day: Date) -> Result<Option<Arc<AuditKey>>, Error> {
    let row = db
        .query_opt(
            r"select sealed, written_by is distinct from pg_current_xact_id_if_assigned() as committed
                from audit_day_keys where day = $1",
            &[&day],
        )
        .await?;
    let Some(row) = row else { return Ok(None) };
    let key = Arc::new(keys.open_day(day, row.try_get("sealed")?).map_err(|error| unreadable(&error))?);
    if row.try_get("committed")? {
        keys.cache_day(day, key.clone());
    }
    Ok(Some(key))
}

/// Stores the sealed key of a day, unless there is one.
pub async fn insert_day(db: &Connection, day: Date, sealed: &[u8]) -> Result<(), Error> {
    db.execute(r"insert into audit_day_keys (day, sealed) values ($1, $2) on conflict do nothing", &[&day, &sealed])
        .await
        .map(drop)
}

/// Replaces a sealed key by the same key sealed under another root key. Of two nodes that do so at once, one succeeds.
pub async fn replace_day(db: &Connection, day: Date, old: &[u8], sealed: &[u8]) -> Result<(), Error> {
    let sql = r"update audit_day_keys set sealed = $3 where day = $1 and sealed = $2";
    db.execute(sql, &[&day, &old, &sealed]).await.map(drop)
}

/// Returns the sealed keys of all days.
pub async fn list_all_days(db: &Connection) -> Result<Vec<(Date, Vec<u8>)>, Error> {
    let rows = db.query(r"select day, sealed from audit_day_keys", &[]).await?;
    rows.iter().map(|row| Ok((row.try_get("day")?, row.try_get("sealed")?))).collect()
}

/// Returns the sealed keys of several days, as far as they still exist.
pub async fn list_days(db: &Connection, days: &[Date]) -> Result<Vec<(Date, Vec<u8>)>, Error> {
    let rows = db.query(r"select day, sealed from audit_day_keys where day = any($1)", &[&days]).await?;
    rows.iter().map(|row| Ok((row.try_get("day")?, row.try_get("sealed")?))).collect()
}

/// Deletes the keys of days before `day`. The network addresses of these days can no longer be opened.
pub async fn delete_days_before(db: &Connection, day: Date) -> Result<u64, Error> {
    db.execute(r"delete from audit_day_keys where day < $1", &[&day]).await
}

/// Returns the key of a user, and creates it if there is none.
pub async fn find_or_create_user(
    db: &Connection,
    keys: &AuditKeys,
    user_id: UserId,
    now: Timestamp,
) -> Result<AuditKey, Error> {
    let sealed = AuditKey::generate().and_then(|key| keys.seal_user(user_id, &key)).map_err(|error| defect(&error))?;
    let sql = r"insert into audit_user_keys (user_id, sealed, created_at) values ($1, $2, $3) on conflict do nothing";
    db.execute(sql, &[&user_id.uuid(), &sealed, &now]).await?;
    let found = list_users(db, &[user_id]).await?;
    let (_, sealed) = found.first().ok_or_else(|| super::impossible("audit_user_keys", "user_id"))?;
    keys.open_user(user_id, sealed).map_err(|error| unreadable(&error))
}

/// Returns the sealed keys of several users, as far as they still exist.
pub async fn list_users(db: &Connection, users: &[UserId]) -> Result<Vec<(UserId, Vec<u8>)>, Error> {
    let users: Vec<_> = users.iter().map(|id| id.uuid()).collect();
    let rows = db.query(r"select user_id, sealed from audit_user_keys where user_id = any($1)", &[&users]).await?;
    rows.iter().map(|row| Ok((row.try_get::<_, Uuid>("user_id")?.into(), row.try_get("sealed")?))).collect()
}

/// Returns up to `limit` keys of users after `after` that are sealed under one of these root keys.
pub async fn list_users_under(
    db: &Connection,
    root_keys: &[i32],
    after: UserId,
    limit: i64,
) -> Result<Vec<(UserId, Vec<u8>)>, Error> {
    let rows = db
        .query(
            r"select user_id, sealed from audit_user_keys
               where get_byte(sealed, 0) = any($1) and user_id > $2 order by user_id limit $3",
            &[&root_keys, &after.uuid(), &limit],
        )
        .await?;
    rows.iter().map(|row| Ok((row.try_get::<_, Uuid>("user_id")?.into(), row.try_get("sealed")?))).collect()
}

/// The key of a user, sealed under the previous root key and under the current one.
pub struct ResealedUserKey {
    pub user_id: UserId,
    pub old: Vec<u8>,
    pub sealed: Vec<u8>,
}

/// Replaces sealed keys by the same keys sealed under another root key, and returns how many were replaced. Of two
/// nodes that do so at once, one succeeds. A key that was deleted meanwhile stays deleted.
pub async fn replace_users(db: &Connection, keys: &[ResealedUserKey]) -> Result<u64, Error> {
    let users: Vec<Uuid> = keys.iter().map(|key| key.user_id.uuid()).collect();
    let old: Vec<&[u8]> = keys.iter().map(|key| key.old.as_slice()).collect();
    let sealed: Vec<&[u8]> = keys.iter().map(|key| key.sealed.as_slice()).collect();
    db.execute(
        r"update audit_user_keys k set sealed = n.sealed
            from unnest($1::uuid[], $2::bytea[], $3::bytea[]) as n (user_id, old, sealed)
           where k.user_id = n.user_id and k.sealed = n.old",
        &[&users, &old, &sealed],
    )
    .await
}

/// Deletes the key of a user. Email addresses and names in the user's audit events can no longer be opened. `false`:
/// there is no such key.
pub async fn delete_user(db: &Connection, user_id: UserId) -> Result<bool, Error> {
    Ok(db.execute(r"delete from audit_user_keys where user_id = $1", &[&user_id.uuid()]).await? == 1)
}

pub(super) fn defect(error: &anyhow::Error) -> Error {
    Error::Defect(format!("{error:#}"))
}

/// This is not a defect: this node may lack a root key that another node has.
fn unreadable(error: &anyhow::Error) -> Error {
    Error::Unavailable(format!("a key of the audit events does not open: {error:#}"))
}
