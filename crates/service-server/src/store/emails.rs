//! Table `emails`: verified email addresses and the users they belong to. A row is in the shard of its address.

use service_api::{
    ids::{Id as _, UserId},
    shard::Shard,
};
use service_rules::{Timestamp, email::Address};
use uuid::Uuid;

use crate::{
    database::{Connection, Error},
    store::users,
};

/// An email address and its shard.
#[derive(Clone, Copy, Debug)]
pub struct EmailKey<'a> {
    pub address: &'a Address,
    pub shard: Shard,
}

/// Assigns the address to `user_id`, unless it belongs to a user already. Returns the user it belongs to.
pub async fn claim(db: &Connection, email: EmailKey<'_>, user_id: UserId, now: Timestamp) -> Result<UserId, Error> {
    let row = db
        .query_opt(
            r"insert into emails (address, shard, user_id, verified_at) values ($1, $2, $3, $4)
              on conflict (address, shard) do update set verified_at = excluded.verified_at
              returning user_id",
            &[&email.address.as_str(), &email.shard.number(), &user_id.uuid(), &now],
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
pub async fn find_user(db: &Connection, email: EmailKey<'_>) -> Result<Option<EmailAccount>, Error> {
    let user_id = find_id(db, email).await?;
    let user = users::find(db, user_id).await?;
    Ok(user.map(|user| EmailAccount { user_id, disabled: user.disabled }))
}

/// Returns the user that an address belongs to, or an id that no user has. So the caller runs the same statements for an
/// address without an account, and their time does not tell it apart.
pub(super) async fn find_id(db: &Connection, email: EmailKey<'_>) -> Result<UserId, Error> {
    let sql = r"select user_id from emails where address = $1 and shard = $2";
    let row = db.query_opt(sql, &[&email.address.as_str(), &email.shard.number()]).await?;
    Ok(row.map_or(Ok(Uuid::nil()), |row| row.try_get("user_id"))?.into())
}
