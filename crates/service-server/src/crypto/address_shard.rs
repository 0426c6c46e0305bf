//! Keyed hashes under the installation's own key: the shard of an email address and of a domain, and the proof of a domain.
//! So an id in the shard of an address says nothing about the address.

use aws_lc_rs::hmac;
use service_api::{ids::WorkspaceId, shard::Shard};
use service_rules::{Timestamp, email::Address};

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

/// Returns what the DNS record of a claim contains: it depends on the workspace, on the domain, and on when the workspace
/// claimed it. It is no secret. The key is that of the installation and no root key, so that records stay valid when root keys
/// are replaced.
#[must_use]
pub fn domain_proof(key: &[u8], workspace_id: WorkspaceId, domain: &str, claimed_at: Timestamp) -> [u8; 16] {
    hash(key, &format!("domain proof {workspace_id} {domain} {}", claimed_at.as_microsecond()))
}

/// Returns an id for a domain of a workspace, which says nothing about the domain.
#[must_use]
pub fn domain_id(key: &[u8], workspace_id: WorkspaceId, domain: &str) -> [u8; 16] {
    hash(key, &format!("domain {workspace_id} {domain}"))
}

fn shard_of_text(key: &[u8], text: &str) -> Shard {
    Shard::of_bytes(hash(key, text))
}

/// The first bytes of the keyed hash of a text.
fn hash<const N: usize>(key: &[u8], text: &str) -> [u8; N] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes());
    tag.as_ref().first_chunk().copied().unwrap_or([0; N])
}
