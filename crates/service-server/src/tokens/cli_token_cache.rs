//! CLI tokens in the memory of this node: a cache of accepted tokens, and uses that are not recorded yet.
//!
//! A token is read by primary key, and cached for a few minutes. A revocation makes the node read it again. Scope and
//! space are checked on every request.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use quick_cache::sync::Cache;
use service_api::ids::CliTokenId;
use service_rules::{Timestamp, credential::Credential};
use tokio::time::Instant;

use crate::{crypto::digest::Digest, store::cli_tokens::CliTokenUse};

const MAX_CACHED_TOKENS: usize = 32_768;
/// How long a token is cached, in seconds. Revocations stay in memory much longer.
pub const CACHE_SECONDS: i64 = 300;
/// The number of tokens whose uses are collected. Further tokens are not recorded until the next write.
const MAX_COLLECTED_USES: usize = 100_000;

/// A cache entry: a token that was accepted.
pub struct CachedCliToken {
    pub id: CliTokenId,
    pub credential: Arc<Credential>,
    /// When the token was read, in whole seconds. Later revocations are not in the entry.
    pub looked_up_at: i64,
    /// From this time the token is looked up again: its user has to sign in through their company, or just did.
    pub sso_until: Option<Timestamp>,
}

/// The cache, and the collected uses.
pub struct CliTokenCache {
    /// Each entry with the end of its time in the cache.
    known: Cache<Digest, (Instant, Arc<CachedCliToken>)>,
    uses: Mutex<HashMap<CliTokenId, (Timestamp, IpAddr)>>,
}

impl Default for CliTokenCache {
    fn default() -> Self {
        Self { known: Cache::new(MAX_CACHED_TOKENS), uses: Mutex::default() }
    }
}

impl CliTokenCache {
    /// Returns the unexpired entry of a token.
    #[must_use]
    pub fn get(&self, digest: &Digest) -> Option<Arc<CachedCliToken>> {
        self.known.get(digest).filter(|(until, _)| *until > Instant::now()).map(|(_, known)| known)
    }

    /// Caches a token.
    pub fn insert(&self, digest: Digest, found: CachedCliToken) {
        let until = Instant::now() + Duration::from_secs(CACHE_SECONDS.unsigned_abs());
        self.known.insert(digest, (until, Arc::new(found)));
    }

    /// Collects a use, to be recorded with others.
    pub fn note_use(&self, id: CliTokenId, at: Timestamp, from: IpAddr) {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        if uses.len() < MAX_COLLECTED_USES || uses.contains_key(&id) {
            uses.insert(id, (at, from));
        }
    }

    /// Returns the collected uses, and starts with none.
    pub fn take_uses(&self) -> Vec<CliTokenUse> {
        let taken = std::mem::take(&mut *self.uses.lock().unwrap_or_else(PoisonError::into_inner));
        taken.into_iter().map(|(id, (at, from))| CliTokenUse { id, at, from }).collect()
    }
}
