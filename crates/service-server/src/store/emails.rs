//! Table `emails`: verified email addresses and the users they belong to.

use service_api::ids::{Id as _, UserId};
use service_rules::{Timestamp, email::Address};
use uuid::Uuid;

use crate::database::{Connection, Error};

/// Assigns the address to `user_id`, unless it belongs to a user already. Returns the user it belongs to.
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

/// The account that an address belongs to.
pub struct EmailAccount {
    pub user_id: UserId,
    pub disabled: bool,
}

/// Returns the account that an address belongs to.
pub async fn find_user(db: &Connection, address: &Address) -> Result<Option<EmailAccount>, Error> {
    let row = db
        .query_opt(
            r"select emails.user_id, users.disabled_at is not null as disabled
                from emails join users on users.id = emails.user_id
               where emails.address = $1",
            &[&address.as_str()],
        )
        .await?;
    row.map(|row| {
        Ok(EmailAccount { user_id: row.try_get::<_, Uuid>("user_id")?.into(), disabled: row.try_get("disabled")? })
    })
    .transpose()
}
