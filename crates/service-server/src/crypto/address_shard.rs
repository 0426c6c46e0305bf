//! The shard of an email address, and of a domain: a keyed hash, so that an id in the shard of an address says nothing about
//! the address.

use aws_lc_rs::hmac;
use service_api::shard::Shard;
use service_rules::email::Address;

/// Returns the shard of an address. `key` is made once for an installation and never changes.
#[must_use]
pub fn shard_of(key: &[u8], address: &Address) -> Shard {
    shard_of_text(key, address.as_str())
}

/// Returns the shard of a domain.
#[must_use]
pub fn shard_of_domain(key: &[u8], domain: &str) -> Shard {
    shard_of_text(key, domain)
}

fn shard_of_text(key: &[u8], text: &str) -> Shard {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes());
    Shard::of_bytes(tag.as_ref().first_chunk().copied().unwrap_or_default())
}
