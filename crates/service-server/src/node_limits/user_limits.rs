//! Limits on the requests of a user to `/v1` and `/mcp`, in the memory of each node.
//!
//! These limits protect a node from one account, so each node counts separately. Limits that protect accounts are in
//! the database (`flows/rate_limit.rs`).

use std::sync::{Arc, atomic::AtomicI64};

use quick_cache::sync::Cache;
use service_api::ids::{Id as _, UserId};
use service_rules::{
    Timestamp,
    limits::{Allowance, Limited, Rate},
};
use uuid::Uuid;

use super::count_at_rate;
use crate::config::LimitsConfig;

/// The number of pairs of user and policy that are tracked. After an eviction the user starts with a full burst.
const MAX_TRACKED_LIMITS: usize = 131_072;

/// The kind of a request, as far as limits distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Usage {
    Read,
    Write,
    Search,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct LimitKey {
    user_id: Uuid,
    policy: &'static str,
}

/// Rate limits of users, by GCRA.
pub struct UserLimits {
    /// Theoretical arrival times in microseconds.
    arrivals: Cache<LimitKey, Arc<AtomicI64>>,
}

impl Default for UserLimits {
    fn default() -> Self {
        Self { arrivals: Cache::new(MAX_TRACKED_LIMITS) }
    }
}

impl UserLimits {
    /// Counts a request against the limit on all requests, and against the limit of its kind, if there is one.
    pub fn count(
        &self,
        limits: &LimitsConfig,
        user_id: UserId,
        usage: Usage,
        now: Timestamp,
    ) -> Result<Vec<Allowance>, Limited> {
        let own = match usage {
            Usage::Read => None,
            Usage::Write => Some(("writes-user", limits.writes_per_user)),
            Usage::Search => Some(("searches-user", limits.searches_per_user)),
        };
        let all = [Some(("requests-user", limits.requests_per_user)), own];
        all.into_iter().flatten().map(|(policy, rate)| self.count_one(user_id, policy, rate, now)).collect()
    }

    fn count_one(
        &self,
        user_id: UserId,
        policy: &'static str,
        rate: Rate,
        now: Timestamp,
    ) -> Result<Allowance, Limited> {
        let key = LimitKey { user_id: user_id.uuid(), policy };
        let arrival = self.arrivals.get(&key).unwrap_or_else(|| {
            let arrival = Arc::new(AtomicI64::new(0));
            self.arrivals.insert(key, arrival.clone());
            arrival
        });
        count_at_rate(&arrival, policy, rate, now)
    }
}
