//! A cache of responses to `GET /v1/whoami`: what checks tokens by it sends the same ones again and again, and writing the JSON
//! takes longer than checking a cached token.
//!
//! A response is used only for exactly what it was written from. So it cannot be out of date, and nothing has to remove it.

use std::sync::Arc;

use bytes::Bytes;
use quick_cache::sync::Cache;
use service_api::workspaces::SpaceView;
use service_rules::credential::{Credential, CredentialKind};

/// A response has about 400 bytes.
const MAX_CACHED_RESPONSES: usize = 8_192;

/// What a response is written from.
#[derive(Clone)]
pub struct WhoamiSource {
    pub credential: Arc<Credential>,
    pub email: Arc<str>,
    pub space: SpaceView,
}

impl WhoamiSource {
    /// Whether nothing has changed. A credential or an address that was read again counts as changed.
    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.credential, &other.credential)
            && Arc::ptr_eq(&self.email, &other.email)
            && self.space == other.space
    }
}

struct CachedWhoami {
    source: WhoamiSource,
    json: Bytes,
}

/// The last response for each session and each CLI token. The least used ones are evicted first.
pub struct WhoamiCache(Cache<CredentialKind, Arc<CachedWhoami>>);

impl Default for WhoamiCache {
    fn default() -> Self {
        Self(Cache::new(MAX_CACHED_RESPONSES))
    }
}

impl WhoamiCache {
    /// Returns the response, if it was written from the same.
    #[must_use]
    pub fn get(&self, source: &WhoamiSource) -> Option<Bytes> {
        let cached = self.0.get(&source.credential.kind)?;
        cached.source.is_same(source).then(|| cached.json.clone())
    }

    pub fn insert(&self, source: WhoamiSource, json: Bytes) {
        self.0.insert(source.credential.kind, Arc::new(CachedWhoami { source, json }));
    }
}
