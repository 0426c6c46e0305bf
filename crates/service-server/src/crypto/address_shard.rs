//! The shard of an email address: a keyed hash, so that an id in the shard of an address says nothing about the address.

use aws_lc_rs::hmac;
use service_api::shard::Shard;
use service_rules::email::Address;

/// Returns the shard of an address. `key` is made once for an installation and never changes.
#[must_use]
pub fn shard_of(key: &[u8], address: &Address) -> Shard {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), address.as_str().as_bytes());
    Shard::of_bytes(tag.as_ref().first_chunk().copied().unwrap_or_default())
}
