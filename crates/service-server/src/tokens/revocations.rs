//! The revocations that this node knows; `tasks/revocation_feed.rs` keeps them up to date.
//!
//! A node that has not read the table for 30 seconds does not know the current revocations, and rejects all tokens.
//! Reading alone is not enough, because a former primary can still be read. So the node's own heartbeat must have been
//! confirmed recently. Where the table is read from a standby, that heartbeat must also have arrived there.

use std::{
    sync::{Mutex, PoisonError, RwLock},
    time::Duration,
};

use service_api::ids::{CliTokenId, UserId, WorkspaceId};
use service_rules::{
    Timestamp,
    bearer::{BearerError, Claims},
    revocation::{Revocation, RevocationSet, RevocationStatus},
};
use tokio::{sync::Notify, time::Instant};

use crate::database;

/// After this time without a read or a heartbeat the node rejects all tokens.
const REVOCATIONS_STALE_AFTER: Duration = Duration::from_secs(30);
/// The capacity of the set. A revocation takes about 32 bytes.
const MAX_REVOCATIONS: usize = 2_000_000;

/// The revocations that this node knows, and how current they are.
pub struct Revocations {
    state: RwLock<RevocationState>,
    /// Notified when there may be new revocations to read.
    pub(crate) poll_requested: Notify,
    /// Notified when this node committed revocations that other nodes should read.
    pub(crate) notify_requested: Notify,
    /// When a node last notified the others.
    last_notification: Mutex<Option<Instant>>,
}

struct RevocationState {
    revocations: RevocationSet,
    /// When the last successful read began.
    read_at: Option<Instant>,
    /// Where it was read.
    source: FeedSource,
    /// When the last confirmed heartbeat of this node began.
    beat_at: Option<Instant>,
    clock_is_off: bool,
}

/// Where the revocations were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FeedSource {
    Primary,
    /// A standby, and when the last heartbeat of this node that it has replayed was written. `None`: there is none, or it
    /// is too old to be represented.
    Standby(Option<Instant>),
}

/// The circumstances of a read.
pub(crate) struct FeedRead {
    pub began: Instant,
    pub source: FeedSource,
    pub clock_is_off: bool,
    pub now: Timestamp,
}

/// Why this node does not know the current revocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleReason {
    WrongClock,
    /// The table was not read recently.
    NotRead,
    /// The table was read, but may be out of date: no heartbeat was confirmed recently.
    NotConfirmed,
}

/// Why a node does not accept a token as not revoked.
#[derive(Debug, thiserror::Error)]
pub enum RevocationCheckError {
    #[error(transparent)]
    Revoked(#[from] BearerError),
    /// This node cannot know what was revoked.
    #[error(transparent)]
    Database(#[from] database::Error),
}

impl Default for Revocations {
    fn default() -> Self {
        let state = RevocationState {
            revocations: RevocationSet::with_capacity(MAX_REVOCATIONS),
            read_at: None,
            source: FeedSource::Primary,
            beat_at: None,
            clock_is_off: false,
        };
        Self {
            state: RwLock::new(state),
            poll_requested: Notify::new(),
            notify_requested: Notify::new(),
            last_notification: Mutex::new(None),
        }
    }
}

impl Revocations {
    /// Checks a token with these claims, signed by this key. Fails if this node does not know the current revocations.
    pub fn judge(&self, claims: &Claims, key_id: &str) -> Result<RevocationStatus, RevocationCheckError> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.check()?;
        Ok(state.revocations.judge(claims, key_id)?)
    }

    /// Whether a CLI token was not revoked since it was read. Fails if this node does not know the current revocations.
    pub fn is_unchanged(
        &self,
        id: CliTokenId,
        user_id: UserId,
        workspace: Option<WorkspaceId>,
        since: i64,
    ) -> Result<bool, database::Error> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.check()?;
        Ok(state.revocations.is_unchanged(id, user_id, workspace, since))
    }

    /// Whether a member's role is what it was when it was read. Fails if this node does not know the current revocations.
    pub fn is_role_unchanged(
        &self,
        user_id: UserId,
        workspace_id: WorkspaceId,
        since: i64,
    ) -> Result<bool, database::Error> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.check()?;
        Ok(state.revocations.is_role_unchanged(user_id, workspace_id, since))
    }

    /// Returns the moment before which all grants are revoked. Fails if this node does not know the current
    /// revocations.
    pub fn epoch(&self) -> Result<Option<Timestamp>, database::Error> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.check()?;
        Ok(state.revocations.epoch())
    }

    /// Whether all credentials of all users were revoked after this moment. Fails if this node does not know the
    /// current revocations.
    pub fn revoked_all_since(&self, at: Timestamp) -> Result<bool, database::Error> {
        Ok(self.epoch()?.is_some_and(|epoch| at < epoch))
    }

    /// Fails if this node does not know the current revocations, or if its clock is wrong.
    pub fn check(&self) -> Result<(), database::Error> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).check()
    }

    #[must_use]
    pub fn clock_is_off(&self) -> bool {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clock_is_off
    }

    /// Returns why this node does not know the current revocations; `None`: it knows them.
    #[must_use]
    pub fn stale(&self) -> Option<StaleReason> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).stale()
    }

    /// Returns the number of revocations in memory.
    #[must_use]
    pub fn count(&self) -> usize {
        self.state.read().unwrap_or_else(PoisonError::into_inner).revocations.len()
    }

    /// Returns how many seconds ago the last read began.
    #[must_use]
    pub fn read_age(&self) -> f64 {
        seconds_since(self.state.read().unwrap_or_else(PoisonError::into_inner).read_at)
    }

    /// Returns the age in seconds of this node's last confirmed heartbeat. On a standby it must have arrived there.
    #[must_use]
    pub fn heartbeat_age(&self) -> f64 {
        seconds_since(self.state.read().unwrap_or_else(PoisonError::into_inner).heartbeat())
    }

    /// Records that a heartbeat of this node, begun at this moment, was confirmed.
    pub(crate) fn heartbeat_confirmed(&self, began: Instant) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.beat_at = state.beat_at.max(Some(began));
    }

    /// Applies revocations that this node has committed, and triggers a notification of the other nodes.
    pub fn apply_committed(&self, revocations: Vec<Revocation>) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        for revocation in revocations {
            state.revocations.insert(revocation);
        }
        drop(state);
        self.notify_requested.notify_one();
    }

    /// Returns when a node last notified the others, as far as this node knows.
    pub(crate) fn last_notification(&self) -> Option<Instant> {
        *self.last_notification.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a node notified the others.
    pub(crate) fn record_notification(&self) {
        *self.last_notification.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Applies revocations that were read from the table.
    pub(crate) fn insert_read(&self, revocations: Vec<Revocation>) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        for revocation in revocations {
            state.revocations.insert(revocation);
        }
    }

    /// Records that the table was read completely.
    pub(crate) fn record_read(&self, read: &FeedRead) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if !read.clock_is_off {
            state.revocations.forget_expired(read.now);
        }
        state.read_at = Some(read.began);
        state.source = read.source;
        state.clock_is_off = read.clock_is_off;
    }
}

impl RevocationState {
    fn heartbeat(&self) -> Option<Instant> {
        match self.source {
            FeedSource::Primary => self.beat_at,
            FeedSource::Standby(arrived) => arrived.min(self.beat_at),
        }
    }

    fn stale(&self) -> Option<StaleReason> {
        let is_recent = |at: Option<Instant>| at.is_some_and(|at| at.elapsed() <= REVOCATIONS_STALE_AFTER);
        if self.clock_is_off {
            Some(StaleReason::WrongClock)
        } else if !is_recent(self.read_at) {
            Some(StaleReason::NotRead)
        } else if !is_recent(self.heartbeat()) {
            Some(StaleReason::NotConfirmed)
        } else {
            None
        }
    }

    fn check(&self) -> Result<(), database::Error> {
        match self.stale() {
            None => Ok(()),
            Some(stale) => Err(unavailable(match stale {
                StaleReason::WrongClock => "this node's clock differs from the database's by more than ten seconds",
                StaleReason::NotRead => "the revocations were not read for 30 seconds",
                StaleReason::NotConfirmed => "no heartbeat of this node was confirmed for 30 seconds",
            })),
        }
    }
}

fn seconds_since(at: Option<Instant>) -> f64 {
    at.map_or(f64::INFINITY, |at| at.elapsed().as_secs_f64())
}

fn unavailable(what: &str) -> database::Error {
    database::Error::Unavailable(what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ago(seconds: u64) -> Instant {
        Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap()
    }

    fn stale(source: FeedSource, read: u64, beat: Option<u64>) -> Option<StaleReason> {
        let revocations = Revocations::default();
        let now = Timestamp::UNIX_EPOCH;
        revocations.record_read(&FeedRead { began: ago(read), source, clock_is_off: false, now });
        if let Some(beat) = beat {
            revocations.heartbeat_confirmed(ago(beat));
        }
        revocations.stale()
    }

    #[test]
    fn on_a_primary_only_a_confirmed_heartbeat_makes_a_read_count_rv_10() {
        let primary = |read, beat| stale(FeedSource::Primary, read, beat);
        assert_eq!(primary(0, None), Some(StaleReason::NotConfirmed));
        assert_eq!(primary(0, Some(31)), Some(StaleReason::NotConfirmed));
        assert_eq!(primary(31, Some(0)), Some(StaleReason::NotRead));
        assert_eq!(primary(29, Some(29)), None);
    }

    #[test]
    fn on_a_standby_a_heartbeat_counts_when_it_was_confirmed_and_has_arrived_rv_10() {
        let standby = |arrived: Option<u64>, own| stale(FeedSource::Standby(arrived.map(ago)), 0, own);
        assert_eq!(standby(None, Some(0)), Some(StaleReason::NotConfirmed));
        assert_eq!(standby(Some(31), Some(0)), Some(StaleReason::NotConfirmed));
        assert_eq!(standby(Some(0), None), Some(StaleReason::NotConfirmed));
        assert_eq!(standby(Some(0), Some(31)), Some(StaleReason::NotConfirmed));
        assert_eq!(standby(Some(29), Some(29)), None);
    }
}
