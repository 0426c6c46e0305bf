//! SHA-256 of a whole secret: what is kept and remembered of those that are random enough for it.

use aws_lc_rs::digest::{SHA256, digest};

pub type Digest = [u8; 32];

#[must_use]
pub fn sha256(text: &str) -> Digest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    bytes
}
