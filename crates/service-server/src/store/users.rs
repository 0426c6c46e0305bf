//! Table `users`.

use service_api::ids::{Id as _, UserId};
use service_rules::{Timestamp, email::Address};

use crate::database::{Connection, Error};

pub struct User {
    pub email: String,
    pub disabled: bool,
}

pub async fn insert(db: &Connection, id: UserId, email: &Address, now: Timestamp) -> Result<(), Error> {
    db.execute(r"insert into users (id, email, created_at) values ($1, $2, $3)", &[&id.uuid(), &email.as_str(), &now])
        .await
        .map(drop)
}

/// Disables or enables a user; `false`: it was so already.
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

/// Makes whoever signs in as this user, makes something for them or ends something of theirs wait until this transaction
/// ends; `false`: the user is disabled. Taken before any other row of the user's, so that nobody waits in a circle.
pub async fn lock(db: &Connection, id: UserId) -> Result<bool, Error> {
    let sql = r"select disabled_at is null as enabled from users where id = $1 for update";
    db.query_opt(sql, &[&id.uuid()]).await?.map_or(Ok(false), |row| Ok(row.try_get("enabled")?))
}

/// Whether the user is there and enabled; whoever disables it waits until this transaction ends.
pub async fn lock_enabled(db: &Connection, id: UserId) -> Result<bool, Error> {
    let row = db.query_opt(r"select from users where id = $1 and disabled_at is null for share", &[&id.uuid()]).await?;
    Ok(row.is_some())
}

pub async fn find(db: &Connection, id: UserId) -> Result<Option<User>, Error> {
    let row = db
        .query_opt(r"select email, disabled_at is not null as disabled from users where id = $1", &[&id.uuid()])
        .await?;
    row.map(|row| Ok(User { email: row.try_get("email")?, disabled: row.try_get("disabled")? })).transpose()
}
