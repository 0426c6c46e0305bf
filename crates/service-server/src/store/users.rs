//! Table `users`: accounts.

use std::collections::HashMap;

use futures_util::future::try_join_all;
use service_api::{
    account::Account,
    ids::{Id as _, UserId},
};
use service_rules::{Timestamp, email::Address, person_name::PersonName};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::database::{Connection, Error};

/// A user as stored.
pub struct StoredUser {
    pub email: String,
    /// What the user is called, if the user chose a name.
    pub name: Option<String>,
    pub disabled: bool,
    /// Whether the user requires a passkey to sign in.
    pub requires_passkey: bool,
    pub created_at: Timestamp,
}

impl StoredUser {
    /// The account as the API shows it.
    #[must_use]
    pub fn account(self, id: UserId) -> Account {
        let Self { email, name, requires_passkey, created_at, .. } = self;
        Account { id, email, name, requires_passkey, created_at }
    }
}

/// Stores a user.
pub async fn insert(db: &Connection, id: UserId, email: &Address, now: Timestamp) -> Result<(), Error> {
    let sql = r"insert into users (id, shard, email, created_at) values ($1, $2, $3, $4)";
    db.execute(sql, &[&id.uuid(), &id.shard().number(), &email.as_str(), &now]).await.map(drop)
}

/// Disables or enables a user; `false`: nothing changes.
pub async fn mark_disabled(db: &Connection, id: UserId, disabled_at: Option<Timestamp>) -> Result<bool, Error> {
    let changed = db
        .execute(
            r"update users set disabled_at = $2
               where id = $1 and shard = $3 and (disabled_at is null) <> ($2::timestamptz is null)",
            &[&id.uuid(), &disabled_at, &id.shard().number()],
        )
        .await?;
    Ok(changed == 1)
}

/// Changes the name of a user; `None`: the user has none. Returns whether it is another one. The row is written in any case, so
/// that a repeated request is confirmed only if the first one was.
pub async fn update_name(db: &Connection, id: UserId, name: Option<&PersonName>) -> Result<bool, Error> {
    let row = db
        .query_opt(
            r"with former as (select name from users where id = $1 and shard = $3)
              update users set name = $2 where id = $1 and shard = $3
              returning (select name from former) is distinct from $2 as changed",
            &[&id.uuid(), &name.map(PersonName::as_str), &id.shard().number()],
        )
        .await?;
    row.map_or(Ok(false), |row| Ok(row.try_get("changed")?))
}

/// Changes the address of a user.
pub async fn update_email(db: &Connection, id: UserId, email: &Address) -> Result<(), Error> {
    let sql = r"update users set email = $2 where id = $1 and shard = $3";
    db.execute(sql, &[&id.uuid(), &email.as_str(), &id.shard().number()]).await.map(drop)
}

/// Records whether a user requires a passkey to sign in; `false`: nothing changes.
pub async fn update_passkey_requirement(db: &Connection, id: UserId, required: bool) -> Result<bool, Error> {
    let sql = r"update users set requires_passkey = $2 where id = $1 and shard = $3 and requires_passkey <> $2";
    Ok(db.execute(sql, &[&id.uuid(), &required, &id.shard().number()]).await? == 1)
}

/// Whether a user requires a passkey to sign in.
pub async fn requires_passkey(db: &Connection, id: UserId) -> Result<bool, Error> {
    let sql = r"select requires_passkey from users where id = $1 and shard = $2";
    let row = db.query_opt(sql, &[&id.uuid(), &id.shard().number()]).await?;
    row.map_or(Ok(false), |row| Ok(row.try_get("requires_passkey")?))
}

/// Locks a user: other transactions that sign in as the user, create credentials for the user or revoke them wait until
/// this one ends. `false`: the user is disabled. This lock is taken before any other lock on rows of the user, to
/// prevent deadlocks.
pub async fn lock(db: &Connection, id: UserId) -> Result<bool, Error> {
    let sql = r"select disabled_at is null as enabled from users where id = $1 and shard = $2 for update";
    db.query_opt(sql, &[&id.uuid(), &id.shard().number()]).await?.map_or(Ok(false), |row| Ok(row.try_get("enabled")?))
}

/// Whether the user exists and is enabled. Locks the row: transactions that disable the user wait until this one ends.
pub async fn lock_enabled(db: &Connection, id: UserId) -> Result<bool, Error> {
    let sql = r"select from users where id = $1 and shard = $2 and disabled_at is null for share";
    Ok(db.query_opt(sql, &[&id.uuid(), &id.shard().number()]).await?.is_some())
}

/// Returns a user by id.
pub async fn find(db: &Connection, id: UserId) -> Result<Option<StoredUser>, Error> {
    let sql = r"select email, name, disabled_at is not null as disabled, requires_passkey, created_at
                  from users where id = $1 and shard = $2";
    let row = db.query_opt(sql, &[&id.uuid(), &id.shard().number()]).await?;
    row.as_ref().map(from_row).transpose()
}

/// Returns the email address of a user.
pub async fn find_address(db: &Connection, id: UserId) -> Result<Option<Address>, Error> {
    let address = |user: StoredUser| Address::parse(&user.email).map_err(|_| super::impossible("users", "email"));
    find(db, id).await?.map(address).transpose()
}

/// Returns several users by their ids, with one statement for each shard.
pub async fn find_several(db: &Connection, ids: &[UserId]) -> Result<HashMap<UserId, StoredUser>, Error> {
    let sql = r"select id, email, name, disabled_at is not null as disabled, requires_passkey, created_at
                  from users where id = any ($1) and shard = $2";
    let read = super::by_shard(ids).into_iter().map(async |(shard, ids)| db.query(sql, &[&ids, &shard]).await);
    let rows = try_join_all(read).await?;
    rows.iter().flatten().map(|row| Ok((row.try_get::<_, Uuid>("id")?.into(), from_row(row)?))).collect()
}

fn from_row(row: &Row) -> Result<StoredUser, Error> {
    Ok(StoredUser {
        email: row.try_get("email")?,
        name: row.try_get("name")?,
        disabled: row.try_get("disabled")?,
        requires_passkey: row.try_get("requires_passkey")?,
        created_at: row.try_get("created_at")?,
    })
}
