//! SHA-256, for storing and caching secrets that have enough entropy.

use aws_lc_rs::digest::{SHA256, digest};

pub type Digest = [u8; 32];

#[must_use]
pub fn sha256(text: impl AsRef<[u8]>) -> Digest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, text.as_ref()).as_ref());
    bytes
}
