//! A cache of access tokens whose signature was verified.
//!
//! Only the signature is cached. Expiry, revocation and access are checked on every request.

use std::sync::Arc;

use quick_cache::sync::Cache;
use service_rules::{bearer::Claims, credential::Credential};

use crate::crypto::digest::{Digest, sha256};

const MAX_CACHED_TOKENS: usize = 32_768;

/// A token with a valid signature.
pub struct VerifiedToken {
    pub claims: Claims,
    pub key_id: String,
    pub credential: Arc<Credential>,
}

/// Verified tokens by the SHA-256 of their text. The least used ones are evicted first.
pub struct VerifiedTokenCache(Cache<Digest, Arc<VerifiedToken>>);

impl Default for VerifiedTokenCache {
    fn default() -> Self {
        Self(Cache::new(MAX_CACHED_TOKENS))
    }
}

impl VerifiedTokenCache {
    /// Returns the entry of a token.
    #[must_use]
    pub fn get(&self, token: &str) -> Option<Arc<VerifiedToken>> {
        self.0.get(&sha256(token))
    }

    /// Caches a verified token.
    pub fn insert(&self, token: &str, verified: Arc<VerifiedToken>) {
        self.0.insert(sha256(token), verified);
    }
}
