//! Runs the searches of one user one after the other on each node.
//!
//! A search costs the database more than any other request. One account with many searches at once must not slow down
//! the sign-ins and refreshes of other users.

use std::{convert::Infallible, sync::Arc, time::Duration};

use quick_cache::sync::Cache;
use service_api::ids::{Id as _, UserId};
use service_rules::limits::Limited;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use uuid::Uuid;

/// The number of users that are tracked. A user who is evicted can run two searches at once.
const MAX_TRACKED_USERS: usize = 16_384;
/// How long a search waits for the user's other searches.
const SEARCH_TURN_TIMEOUT: Duration = Duration::from_secs(2);

/// One semaphore for each user.
pub struct SearchTurns {
    by_user: Cache<Uuid, Arc<Semaphore>>,
}

impl Default for SearchTurns {
    fn default() -> Self {
        Self { by_user: Cache::new(MAX_TRACKED_USERS) }
    }
}

impl SearchTurns {
    /// Waits until no other search of this user runs on this node. The next search starts when the permit is dropped.
    pub async fn take(&self, user_id: UserId) -> Result<OwnedSemaphorePermit, Limited> {
        let turn: Result<_, Infallible> =
            self.by_user.get_or_insert_with(&user_id.uuid(), || Ok(Arc::new(Semaphore::new(1))));
        let Ok(turn) = turn;
        match timeout(SEARCH_TURN_TIMEOUT, turn.acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            // No semaphore is ever closed.
            Ok(Err(_)) | Err(_) => {
                Err(Limited { policy: "searches-at-once", quota: 1, window_seconds: 1, retry_after: 1 })
            }
        }
    }
}
