//! The shard of an email address and of a domain, under the key in the database.

use service_rules::email::Address;

use crate::{
    app::App,
    crypto::address_shard,
    database::{Connection, Error},
    store::{self, emails::EmailKey, routed_domains::DomainKey},
};

/// Returns an address with its shard. A node reads the key once.
pub async fn email_key<'a>(app: &App, db: &Connection, address: &'a Address) -> Result<EmailKey<'a>, Error> {
    let key = app.address_key.get_or_try_init(|| store::address_key::find(db)).await?;
    Ok(EmailKey { address, shard: address_shard::shard_of(key, address) })
}

/// Returns a domain with its shard. A node reads the key once.
pub async fn domain_key<'a>(app: &App, db: &Connection, domain: &'a str) -> Result<DomainKey<'a>, Error> {
    let key = app.address_key.get_or_try_init(|| store::address_key::find(db)).await?;
    Ok(DomainKey { domain, shard: address_shard::shard_of_domain(key, domain) })
}
