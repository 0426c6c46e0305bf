//! Roles in workspaces in the memory of this node, so that a request that reads in a workspace runs no statement for it.
//!
//! A role is cached for a minute. A revocation or a changed role makes the node read it again. A request that changes
//! something reads the role in its own transaction, and does not rely on this cache.

use std::time::Duration;

use quick_cache::sync::Cache;
use service_api::{
    ids::{UserId, WorkspaceId},
    workspaces::Role,
};
use tokio::time::Instant;

const MAX_CACHED_ROLES: usize = 65_536;
/// How long a role is cached, in seconds. Revocations stay in memory much longer.
pub const CACHE_SECONDS: i64 = 60;

/// A cache entry: the role that a member had.
#[derive(Clone, Copy, Debug)]
pub struct CachedRole {
    pub role: Role,
    /// When the role was read, in whole seconds. Later changes are not in the entry.
    pub looked_up_at: i64,
    until: Instant,
}

/// The roles of members. Users who are not members are not cached.
pub struct MembershipCache(Cache<(UserId, WorkspaceId), CachedRole>);

impl Default for MembershipCache {
    fn default() -> Self {
        Self(Cache::new(MAX_CACHED_ROLES))
    }
}

impl MembershipCache {
    /// Returns the unexpired entry of a member.
    #[must_use]
    pub fn get(&self, user_id: UserId, workspace_id: WorkspaceId) -> Option<CachedRole> {
        self.0.get(&(user_id, workspace_id)).filter(|known| known.until > Instant::now())
    }

    /// Caches the role of a member, read at `looked_up_at`.
    pub fn insert(&self, user_id: UserId, workspace_id: WorkspaceId, role: Role, looked_up_at: i64) {
        let until = Instant::now() + Duration::from_secs(CACHE_SECONDS.unsigned_abs());
        self.0.insert((user_id, workspace_id), CachedRole { role, looked_up_at, until });
    }
}
