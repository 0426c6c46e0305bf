//! What this node remembers of tokens for automation: which it has looked up, and when they were used.
//!
//! A token is looked up by primary key, and the answer is remembered for a few minutes. Whatever happens to it meanwhile
//! is heard through the revocations, and makes it be looked up again; scope and space are judged every time.

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

use crate::{digest::Digest, store::cli_tokens::Use};

const REMEMBERED: usize = 32_768;
/// In seconds: far shorter than revocations are remembered.
pub const REMEMBERED_FOR: i64 = 300;
/// More tokens in use between two writes than this: the latest uses of the rest are not noted.
const NOTED: usize = 100_000;

/// A token that was found alive.
pub struct Known {
    pub id: CliTokenId,
    pub credential: Arc<Credential>,
    /// The moment it was asked for, in whole seconds: what ended later is not in it.
    pub looked_up_at: i64,
    until: Instant,
}

pub struct CliTokens {
    known: Cache<Digest, Arc<Known>>,
    uses: Mutex<HashMap<CliTokenId, (Timestamp, IpAddr)>>,
}

impl Default for CliTokens {
    fn default() -> Self {
        Self { known: Cache::new(REMEMBERED), uses: Mutex::default() }
    }
}

impl CliTokens {
    #[must_use]
    pub fn get(&self, digest: &Digest) -> Option<Arc<Known>> {
        self.known.get(digest).filter(|known| known.until > Instant::now())
    }

    pub fn insert(&self, digest: Digest, id: CliTokenId, credential: Arc<Credential>, looked_up_at: i64) {
        let until = Instant::now() + Duration::from_secs(REMEMBERED_FOR.unsigned_abs());
        self.known.insert(digest, Arc::new(Known { id, credential, looked_up_at, until }));
    }

    /// Notes a use, to be written down with others.
    pub fn note_use(&self, id: CliTokenId, at: Timestamp, from: IpAddr) {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        if uses.len() < NOTED || uses.contains_key(&id) {
            uses.insert(id, (at, from));
        }
    }

    /// What was noted since the last time.
    pub fn take_uses(&self) -> Vec<Use> {
        let taken = std::mem::take(&mut *self.uses.lock().unwrap_or_else(PoisonError::into_inner));
        taken.into_iter().map(|(id, (at, from))| Use { id, at, from }).collect()
    }
}
