//! Tables `passkeys` and `passkey_users`: the passkeys of users, and what authenticators know a user by. Rows are in the shard
//! of the user.
//!
//! `passkey_credentials` finds a passkey by its credential id. Functions that write here write there too.

use service_api::ids::{Id as _, PasskeyId, UserId};
use service_rules::{
    Timestamp,
    display_name::DisplayName,
    passkeys::{NewPasskey, USER_HANDLE_BYTES},
};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::{
    database::{Connection, Error},
    store::{impossible, passkey_credentials},
};

/// What authenticators know a user by.
#[derive(Clone, Debug)]
pub struct PasskeyUser {
    pub handle: [u8; USER_HANDLE_BYTES],
    /// How often a passkey was added or removed.
    pub changes: i32,
}

/// A passkey of a user, for the user.
#[derive(Clone, Debug)]
pub struct ListedPasskey {
    pub id: PasskeyId,
    pub credential_id: Vec<u8>,
    pub name: String,
    pub is_backed_up: bool,
    pub created_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
}

/// What verifies a signature of a passkey.
pub struct StoredPasskeyKey {
    pub public_key: Vec<u8>,
    pub name: String,
    pub counter: u32,
    pub can_be_backed_up: bool,
    pub handle: [u8; USER_HANDLE_BYTES],
    /// From when on it restricts what codes can do, and stops a recovery. `None`: another device has a copy of it.
    pub counts_from: Option<Timestamp>,
}

/// Stores the handle of a user who has none yet; returns the one that counts.
pub async fn find_or_create_user(
    db: &Connection,
    user_id: UserId,
    handle: &[u8; USER_HANDLE_BYTES],
) -> Result<PasskeyUser, Error> {
    let shard = user_id.shard().number();
    db.execute(
        r"insert into passkey_users (user_id, shard, handle, changes) values ($1, $2, $3, 0)
          on conflict (user_id, shard) do nothing",
        &[&user_id.uuid(), &shard, &handle.as_slice()],
    )
    .await?;
    find_user(db, user_id).await?.ok_or_else(|| impossible("passkey_users", "user_id"))
}

/// Returns what authenticators know a user by; `None`: the user never began to add a passkey.
pub async fn find_user(db: &Connection, user_id: UserId) -> Result<Option<PasskeyUser>, Error> {
    let sql = r"select handle, changes from passkey_users where user_id = $1 and shard = $2";
    let row = db.query_opt(sql, &[&user_id.uuid(), &user_id.shard().number()]).await?;
    row.map(|row| Ok(PasskeyUser { handle: read_handle(&row)?, changes: row.try_get("changes")? })).transpose()
}

/// Counts a change of a user's passkeys; `false`: another one came first.
pub async fn count_change(db: &Connection, user_id: UserId, before: i32) -> Result<bool, Error> {
    let sql = r"update passkey_users set changes = changes + 1 where user_id = $1 and shard = $2 and changes = $3";
    Ok(db.execute(sql, &[&user_id.uuid(), &user_id.shard().number(), &before]).await? == 1)
}

/// A passkey to be stored, with the name that its user gave it.
pub struct PasskeyToStore<'a> {
    pub id: PasskeyId,
    pub user_id: UserId,
    pub passkey: &'a NewPasskey,
    pub name: &'a str,
    pub made_by: &'a str,
    pub now: Timestamp,
    /// From when on it restricts what codes can do, and stops a recovery.
    pub counts_from: Timestamp,
}

/// Stores a passkey; `false`: its credential id is in use, by this user or another one.
pub async fn insert(db: &Connection, new: &PasskeyToStore<'_>) -> Result<bool, Error> {
    let PasskeyToStore { id, user_id, passkey, name, made_by, now, counts_from } = new;
    if !passkey_credentials::insert(db, &passkey.credential_id, *user_id, *id).await? {
        return Ok(false);
    }
    db.execute(
        r"insert into passkeys (user_id, id, shard, credential_id, public_key, counter, can_be_backed_up, is_backed_up,
                                name, made_by, created_at, counts_from)
          values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        &[
            &user_id.uuid(),
            &id.uuid(),
            &user_id.shard().number(),
            &passkey.credential_id,
            &passkey.public_key,
            &i64::from(passkey.counter),
            &passkey.can_be_backed_up,
            &passkey.is_backed_up,
            name,
            made_by,
            now,
            counts_from,
        ],
    )
    .await?;
    Ok(true)
}

/// Returns the passkeys of a user, the newest first.
pub async fn list_by_user(db: &Connection, user_id: UserId) -> Result<Vec<ListedPasskey>, Error> {
    let sql = r"select id, credential_id, name, is_backed_up, created_at, last_used_at from passkeys
                 where user_id = $1 and shard = $2 order by id desc";
    let rows = db.query(sql, &[&user_id.uuid(), &user_id.shard().number()]).await?;
    rows.iter().map(read_listed).collect()
}

/// Whether a user has a passkey that restricts what codes can do.
pub async fn count_now(db: &Connection, user_id: UserId, now: Timestamp) -> Result<bool, Error> {
    let sql = r"select from passkeys
                 where user_id = $1 and shard = $2 and counts_from <= $3 and copied_at is null limit 1";
    Ok(db.query_opt(sql, &[&user_id.uuid(), &user_id.shard().number(), &now]).await?.is_some())
}

/// Whether a user has passkeys, and another device has a copy of each.
pub async fn are_copied(db: &Connection, user_id: UserId) -> Result<bool, Error> {
    let sql = r"select bool_and(copied_at is not null) as copied from passkeys where user_id = $1 and shard = $2";
    let row = db.query_opt(sql, &[&user_id.uuid(), &user_id.shard().number()]).await?;
    let copied = row.map(|row| row.try_get::<_, Option<bool>>("copied")).transpose()?;
    Ok(copied.flatten().unwrap_or_default())
}

/// Whether another device has a copy of a passkey of a user.
pub async fn has_copied(db: &Connection, user_id: UserId) -> Result<bool, Error> {
    let sql = r"select from passkeys where user_id = $1 and shard = $2 and copied_at is not null limit 1";
    Ok(db.query_opt(sql, &[&user_id.uuid(), &user_id.shard().number()]).await?.is_some())
}

/// Records that another device has a copy of a passkey. The first time stays.
pub async fn mark_copied(db: &Connection, user_id: UserId, id: PasskeyId, now: Timestamp) -> Result<(), Error> {
    let sql = r"update passkeys set copied_at = $4
                 where user_id = $1 and id = $2 and shard = $3 and copied_at is null";
    db.execute(sql, &[&user_id.uuid(), &id.uuid(), &user_id.shard().number(), &now]).await.map(drop)
}

/// Returns a passkey of a user, and locks its row until the transaction ends.
pub async fn lock(db: &Connection, user_id: UserId, id: PasskeyId) -> Result<Option<ListedPasskey>, Error> {
    let sql = r"select id, credential_id, name, is_backed_up, created_at, last_used_at from passkeys
                 where user_id = $1 and id = $2 and shard = $3 for update";
    let row = db.query_opt(sql, &[&user_id.uuid(), &id.uuid(), &user_id.shard().number()]).await?;
    row.as_ref().map(read_listed).transpose()
}

/// Changes the name of a passkey.
pub async fn update_name(db: &Connection, user_id: UserId, id: PasskeyId, name: &DisplayName) -> Result<(), Error> {
    let sql = r"update passkeys set name = $4 where user_id = $1 and id = $2 and shard = $3";
    db.execute(sql, &[&user_id.uuid(), &id.uuid(), &user_id.shard().number(), &name.as_str()]).await.map(drop)
}

/// Returns how many passkeys a user has.
pub async fn count_by_user(db: &Connection, user_id: UserId) -> Result<i64, Error> {
    let sql = r"select count(*) as passkeys from passkeys where user_id = $1 and shard = $2";
    let row = db.query_opt(sql, &[&user_id.uuid(), &user_id.shard().number()]).await?;
    Ok(row.ok_or_else(|| impossible("passkeys", "count"))?.try_get("passkeys")?)
}

/// Returns what verifies signatures of a passkey.
pub async fn find_key(db: &Connection, user_id: UserId, id: PasskeyId) -> Result<Option<StoredPasskeyKey>, Error> {
    let sql = r"select p.public_key, p.name, p.counter, p.can_be_backed_up, u.handle,
                     case when p.copied_at is null then p.counts_from end as counts_from
                  from passkeys p join passkey_users u on u.user_id = p.user_id and u.shard = p.shard
                 where p.user_id = $1 and p.id = $2 and p.shard = $3";
    let row = db.query_opt(sql, &[&user_id.uuid(), &id.uuid(), &user_id.shard().number()]).await?;
    let read = |row: Row| {
        let counter = row.try_get::<_, i64>("counter")?.try_into();
        Ok(StoredPasskeyKey {
            public_key: row.try_get("public_key")?,
            name: row.try_get("name")?,
            counter: counter.map_err(|_| impossible("passkeys", "counter"))?,
            can_be_backed_up: row.try_get("can_be_backed_up")?,
            handle: read_handle(&row)?,
            counts_from: row.try_get("counts_from")?,
        })
    };
    row.map(read).transpose()
}

/// What a signature of a passkey changes.
pub struct PasskeyUse {
    pub user_id: UserId,
    pub id: PasskeyId,
    pub counter: u32,
    pub is_backed_up: bool,
    pub now: Timestamp,
}

/// Records a use; `false`: another request has used the same counter or a higher one, or the passkey was removed.
pub async fn mark_used(db: &Connection, used: &PasskeyUse) -> Result<bool, Error> {
    let updated = db
        .execute(
            r"update passkeys set counter = $4, is_backed_up = $5, last_used_at = $6
               where user_id = $1 and id = $2 and shard = $3 and (counter < $4 or (counter = 0 and $4 = 0))",
            &[
                &used.user_id.uuid(),
                &used.id.uuid(),
                &used.user_id.shard().number(),
                &i64::from(used.counter),
                &used.is_backed_up,
                &used.now,
            ],
        )
        .await?;
    Ok(updated == 1)
}

/// Deletes a passkey of a user; returns its name.
pub async fn delete(db: &Connection, user_id: UserId, id: PasskeyId) -> Result<Option<String>, Error> {
    let shard = user_id.shard().number();
    let sql = r"delete from passkeys where user_id = $1 and id = $2 and shard = $3 returning credential_id, name";
    let Some(row) = db.query_opt(sql, &[&user_id.uuid(), &id.uuid(), &shard]).await? else { return Ok(None) };
    passkey_credentials::delete(db, row.try_get("credential_id")?).await?;
    let sql = r"update passkey_users set changes = changes + 1 where user_id = $1 and shard = $2";
    db.execute(sql, &[&user_id.uuid(), &shard]).await?;
    Ok(Some(row.try_get("name")?))
}

/// Deletes these passkeys of a user.
pub async fn delete_several(db: &Connection, user_id: UserId, ids: &[Uuid]) -> Result<(), Error> {
    for id in ids {
        delete(db, user_id, (*id).into()).await?;
    }
    Ok(())
}

fn read_listed(row: &Row) -> Result<ListedPasskey, Error> {
    Ok(ListedPasskey {
        id: row.try_get::<_, Uuid>("id")?.into(),
        credential_id: row.try_get("credential_id")?,
        name: row.try_get("name")?,
        is_backed_up: row.try_get("is_backed_up")?,
        created_at: row.try_get("created_at")?,
        last_used_at: row.try_get("last_used_at")?,
    })
}

fn read_handle(row: &Row) -> Result<[u8; USER_HANDLE_BYTES], Error> {
    row.try_get::<_, &[u8]>("handle")?.try_into().map_err(|_| impossible("passkey_users", "handle"))
}
