//! Table `users`: accounts.

use service_api::ids::{Id as _, UserId};
use service_rules::{Timestamp, email::Address};

use crate::database::{Connection, Error};

/// A user as stored.
pub struct StoredUser {
    pub email: String,
    pub disabled: bool,
}

/// Stores a user.
pub async fn insert(db: &Connection, id: UserId, email: &Address, now: Timestamp) -> Result<(), Error> {
    db.execute(r"insert into users (id, email, created_at) values ($1, $2, $3)", &[&id.uuid(), &email.as_str(), &now])
        .await
        .map(drop)
}

/// Disables or enables a user; `false`: nothing changes.
pub async fn mark_disabled(db: &Connection, id: UserId, disabled_at: Option<Timestamp>) -> Result<bool, Error> {
    let changed = db
        .execute(
            r"update users set disabled_at = $2
               where id = $1 and (disabled_at is null) <> ($2::timestamptz is null)",
            &[&id.uuid(), &disabled_at],
        )
        .await?;
    Ok(changed == 1)
}

/// Locks a user: other transactions that sign in as the user, create credentials for the user or revoke them wait until
/// this one ends. `false`: the user is disabled. This lock is taken before any other lock on rows of the user, to
/// prevent deadlocks.
pub async fn lock(db: &Connection, id: UserId) -> Result<bool, Error> {
    let sql = r"select disabled_at is null as enabled from users where id = $1 for update";
    db.query_opt(sql, &[&id.uuid()]).await?.map_or(Ok(false), |row| Ok(row.try_get("enabled")?))
}

/// Whether the user exists and is enabled. Locks the row: transactions that disable the user wait until this one ends.
pub async fn lock_enabled(db: &Connection, id: UserId) -> Result<bool, Error> {
    let row = db.query_opt(r"select from users where id = $1 and disabled_at is null for share", &[&id.uuid()]).await?;
    Ok(row.is_some())
}

/// Returns a user by id.
pub async fn find(db: &Connection, id: UserId) -> Result<Option<StoredUser>, Error> {
    let row = db
        .query_opt(r"select email, disabled_at is not null as disabled from users where id = $1", &[&id.uuid()])
        .await?;
    row.map(|row| Ok(StoredUser { email: row.try_get("email")?, disabled: row.try_get("disabled")? })).transpose()
}
