//! The shard of an email address, under the key in the database.

use service_rules::email::Address;

use crate::{
    app::App,
    crypto::address_shard,
    database::{Connection, Error},
    store::{self, emails::EmailKey},
};

/// Returns an address with its shard. A node reads the key once.
pub async fn email_key<'a>(app: &App, db: &Connection, address: &'a Address) -> Result<EmailKey<'a>, Error> {
    let key = app.address_key.get_or_try_init(|| store::address_key::find(db)).await?;
    Ok(EmailKey { address, shard: address_shard::shard_of(key, address) })
}
