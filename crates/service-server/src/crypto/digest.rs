//! SHA-256, for storing and caching secrets that have enough entropy.

use aws_lc_rs::digest::{SHA256, digest};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use service_api::token::{Token, TokenKind};

pub type Digest = [u8; 32];

/// The digest by which the database knows a token.
#[must_use]
pub fn token_digest<K: TokenKind>(token: &Token<K>) -> Digest {
    sha256(token.expose())
}

#[must_use]
pub fn sha256(text: impl AsRef<[u8]>) -> Digest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, text.as_ref()).as_ref());
    bytes
}

/// The challenge that belongs to a PKCE verifier (RFC 7636 section 4.6).
#[must_use]
pub fn pkce_challenge(verifier: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(sha256(verifier))
}
