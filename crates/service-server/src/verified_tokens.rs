//! Access tokens whose signature has been checked, so that it need not be checked again.
//!
//! Only that a token is genuine is remembered. What it opens, and whether it still does, is judged every time.

use std::sync::Arc;

use quick_cache::sync::Cache;
use service_rules::{bearer::Claims, credential::Credential};

use crate::digest::{Digest, sha256};

const REMEMBERED: usize = 32_768;

/// A token whose signature is genuine.
pub struct Verified {
    pub claims: Claims,
    pub key_id: String,
    pub credential: Arc<Credential>,
}

/// Tokens by the SHA-256 of their whole text, the least used forgotten first.
pub struct VerifiedTokens(Cache<Digest, Arc<Verified>>);

impl Default for VerifiedTokens {
    fn default() -> Self {
        Self(Cache::new(REMEMBERED))
    }
}

impl VerifiedTokens {
    #[must_use]
    pub fn get(&self, token: &str) -> Option<Arc<Verified>> {
        self.0.get(&sha256(token))
    }

    pub fn insert(&self, token: &str, verified: Arc<Verified>) {
        self.0.insert(sha256(token), verified);
    }
}
