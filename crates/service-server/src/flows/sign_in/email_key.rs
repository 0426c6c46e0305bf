//! The shard of an email address and of a domain, and the proof of a domain, under the key in the database.

use service_rules::{domains, email::Address};

use crate::{
    app::App,
    crypto::address_shard,
    database::{Connection, Error},
    store::{self, emails::EmailKey, routed_domains::DomainKey, workspace_domains::StoredDomain},
};

/// Returns an address with its shard. A node reads the key once.
pub async fn email_key<'a>(app: &App, db: &Connection, address: &'a Address) -> Result<EmailKey<'a>, Error> {
    let key = app.address_key.get_or_try_init(|| store::address_key::find(db)).await?;
    Ok(EmailKey { address, shard: address_shard::shard_of(key, address) })
}

/// Returns the text of the DNS record by which a workspace proves a domain that it has claimed.
pub async fn record_value(app: &App, db: &Connection, claimed: &StoredDomain) -> Result<String, Error> {
    let key = app.address_key.get_or_try_init(|| store::address_key::find(db)).await?;
    let proof = address_shard::domain_proof(key, claimed.workspace_id, &claimed.domain, claimed.created_at);
    Ok(domains::record_value(proof))
}

/// Returns a domain with its shard. A node reads the key once.
pub async fn domain_key<'a>(app: &App, db: &Connection, domain: &'a str) -> Result<DomainKey<'a>, Error> {
    let key = app.address_key.get_or_try_init(|| store::address_key::find(db)).await?;
    Ok(DomainKey { domain, shard: address_shard::shard_of_domain(key, domain) })
}
