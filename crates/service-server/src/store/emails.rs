//! Table `emails`.

use service_api::ids::{Id as _, UserId};
use service_rules::{Timestamp, email::Address};
use uuid::Uuid;

use crate::database::{Connection, Error};

/// Gives the address to `user_id` unless it belongs to somebody; returns whose it is.
pub async fn claim(db: &Connection, address: &Address, user_id: UserId, now: Timestamp) -> Result<UserId, Error> {
    let row = db
        .query_opt(
            r"insert into emails (address, user_id, verified_at) values ($1, $2, $3)
              on conflict (address) do update set verified_at = excluded.verified_at
              returning user_id",
            &[&address.as_str(), &user_id.uuid(), &now],
        )
        .await?
        .ok_or_else(|| super::impossible("emails", "user_id"))?;
    Ok(row.try_get::<_, Uuid>("user_id")?.into())
}

/// The account an address belongs to.
pub struct Account {
    pub user_id: UserId,
    pub disabled: bool,
}

pub async fn find_user(db: &Connection, address: &Address) -> Result<Option<Account>, Error> {
    let row = db
        .query_opt(
            r"select emails.user_id, users.disabled_at is not null as disabled
                from emails join users on users.id = emails.user_id
               where emails.address = $1",
            &[&address.as_str()],
        )
        .await?;
    row.map(|row| {
        Ok(Account { user_id: row.try_get::<_, Uuid>("user_id")?.into(), disabled: row.try_get("disabled")? })
    })
    .transpose()
}
