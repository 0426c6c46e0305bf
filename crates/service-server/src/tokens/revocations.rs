//! The revocations that this node knows; `tasks/revocation_feed.rs` keeps them up to date.
//!
//! A node that has not read the table for 30 seconds does not know the current revocations, and rejects all tokens.
//! Reading alone is not enough, because a former primary can still be read, and a standby may lag. So a recent heartbeat
//! of this node must have been confirmed by the primary, and must have arrived at the server that is read. After a failover
//! the 30 seconds still count from what was known of the former primary, until the new one is read.

use std::{
    collections::VecDeque,
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
/// Heartbeats of more than 30 seconds, also if each is repeated after half a second.
const REMEMBERED_HEARTBEATS: usize = 64;
/// The capacity of the set. A revocation takes about 32 bytes.
const MAX_REVOCATIONS: usize = 2_000_000;

/// The revocations that this node knows, and how current they are.
pub struct Revocations {
    state: RwLock<RevocationState>,
    /// Notified when there may be new revocations to read.
    pub(crate) poll_requested: Notify,
    /// Notified when this node's heartbeat should be written at once.
    pub(crate) beat_requested: Notify,
    /// Notified when this node committed revocations that other nodes should read.
    pub(crate) notify_requested: Notify,
    /// When a node last notified the others.
    last_notification: Mutex<Option<Instant>>,
}

struct RevocationState {
    revocations: RevocationSet,
    /// When the last successful read began.
    read_at: Option<Instant>,
    /// When the heartbeat of this node began that the server had when it was read.
    arrived_at: Option<Instant>,
    /// When the last confirmed heartbeat of this node began.
    confirmed_at: Option<Instant>,
    /// When this node turned to the server that confirmed it. Earlier reads are of a former primary.
    primary_since: Option<Instant>,
    /// The moment up to which this node knew all revocations when it turned to that server.
    known_before: Option<Instant>,
    /// The last heartbeats of this node: their times in the database, and when they began.
    heartbeats: VecDeque<(Timestamp, Instant)>,
    clock_is_off: bool,
}

/// The circumstances of a read.
pub(crate) struct FeedRead {
    pub began: Instant,
    /// When the heartbeat of this node began that the server has. `None`: it has none, or an old one.
    pub arrived_at: Option<Instant>,
    /// A time at which this node's clock was right. Revocations that had expired by then are forgotten.
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
            arrived_at: None,
            confirmed_at: None,
            primary_since: None,
            known_before: None,
            heartbeats: VecDeque::new(),
            clock_is_off: false,
        };
        Self {
            state: RwLock::new(state),
            poll_requested: Notify::new(),
            beat_requested: Notify::new(),
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

    /// Returns the age in seconds of the last heartbeat of this node that was confirmed and has arrived where it reads.
    #[must_use]
    pub fn heartbeat_age(&self) -> f64 {
        seconds_since(self.state.read().unwrap_or_else(PoisonError::into_inner).heartbeat())
    }

    /// Records that a heartbeat of this node, begun at this moment, was confirmed. `primary_since` is when this node
    /// turned to the server that confirmed it, if it used another one before.
    pub(crate) fn heartbeat_confirmed(&self, began: Instant, primary_since: Option<Instant>) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if primary_since > state.primary_since {
            // First, because this heartbeat says nothing about earlier reads.
            state.known_before = state.known_at();
            state.primary_since = primary_since;
            self.poll_requested.notify_one();
        }
        state.confirmed_at = state.confirmed_at.max(Some(began));
    }

    /// Records that a heartbeat of this node is about to be written, with this time.
    pub(crate) fn heartbeat_begun(&self, at: Timestamp, began: Instant) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.heartbeats.len() >= REMEMBERED_HEARTBEATS {
            state.heartbeats.pop_front();
        }
        state.heartbeats.push_back((at, began));
    }

    /// Returns when the heartbeat with this time began; `None`: it is not one of the last.
    pub(crate) fn heartbeat_with(&self, at: Timestamp) -> Option<Instant> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        // The database stores microseconds.
        let is_same = |beat: &Timestamp| beat.as_microsecond().abs_diff(at.as_microsecond()) <= 1;
        state.heartbeats.iter().rev().find(|(beat, _)| is_same(beat)).map(|(_, began)| *began)
    }

    /// Records whether this node's clock differs from the database's.
    pub(crate) fn record_clock(&self, is_off: bool) {
        self.state.write().unwrap_or_else(PoisonError::into_inner).clock_is_off = is_off;
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
        if !state.clock_is_off {
            state.revocations.forget_expired(read.now);
        }
        state.read_at = Some(read.began);
        state.arrived_at = read.arrived_at;
    }
}

impl RevocationState {
    fn heartbeat(&self) -> Option<Instant> {
        self.arrived_at.min(self.confirmed_at)
    }

    /// Returns the moment up to which this node knows all revocations.
    fn known_at(&self) -> Option<Instant> {
        if self.is_primary_read() { self.read_at.min(self.heartbeat()) } else { self.known_before }
    }

    /// Whether the last read is of the server that confirms heartbeats now, or of a standby of it.
    fn is_primary_read(&self) -> bool {
        self.read_at.min(self.arrived_at) >= self.primary_since
    }

    fn stale(&self) -> Option<StaleReason> {
        let now = Instant::now();
        let is_recent = |at: Option<Instant>| at.is_some_and(|at| now.duration_since(at) <= REVOCATIONS_STALE_AFTER);
        if self.clock_is_off {
            Some(StaleReason::WrongClock)
        } else if is_recent(self.known_at()) {
            None
        } else if is_recent(self.read_at) && self.is_primary_read() {
            Some(StaleReason::NotConfirmed)
        } else {
            Some(StaleReason::NotRead)
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

    fn read(began: u64, arrived: Option<u64>) -> FeedRead {
        FeedRead { began: ago(began), arrived_at: arrived.map(ago), now: Timestamp::UNIX_EPOCH }
    }

    fn stale(began: u64, arrived: Option<u64>, confirmed: Option<u64>) -> Option<StaleReason> {
        let revocations = Revocations::default();
        revocations.record_read(&read(began, arrived));
        if let Some(confirmed) = confirmed {
            revocations.heartbeat_confirmed(ago(confirmed), None);
        }
        revocations.stale()
    }

    #[test]
    fn a_read_counts_with_a_heartbeat_that_was_confirmed_and_has_arrived_rv_10() {
        assert_eq!(stale(29, Some(29), Some(29)), None);
        assert_eq!(stale(31, Some(0), Some(0)), Some(StaleReason::NotRead));
        for (arrived, confirmed) in [(None, Some(0)), (Some(31), Some(0)), (Some(0), None), (Some(0), Some(31))] {
            assert_eq!(stale(0, arrived, confirmed), Some(StaleReason::NotConfirmed), "{arrived:?} {confirmed:?}");
        }
    }

    #[test]
    fn a_heartbeat_that_a_new_primary_confirms_says_nothing_of_reads_before_it_rv_10() {
        let revocations = Revocations::default();
        revocations.heartbeat_confirmed(ago(31), Some(ago(60)));
        revocations.record_read(&read(2, Some(2)));
        assert_eq!(revocations.stale(), Some(StaleReason::NotConfirmed));
        revocations.heartbeat_confirmed(ago(0), Some(ago(1)));
        assert_eq!(revocations.stale(), Some(StaleReason::NotRead));
        // The former primary can still be read.
        revocations.record_read(&read(2, Some(2)));
        assert_eq!(revocations.stale(), Some(StaleReason::NotRead));
        revocations.record_read(&read(0, Some(0)));
        assert_eq!(revocations.stale(), None);
    }

    #[test]
    fn a_failover_takes_none_of_the_thirty_seconds_away_rv_10() {
        for (heartbeat, expected) in [(28, None), (31, Some(StaleReason::NotRead))] {
            let revocations = Revocations::default();
            revocations.heartbeat_confirmed(ago(heartbeat), None);
            revocations.record_read(&read(25, Some(25)));
            // Two failovers, one after the other, and the new primary was not read yet.
            for turned in [2, 1] {
                revocations.heartbeat_confirmed(ago(turned), Some(ago(turned)));
                assert_eq!(revocations.stale(), expected);
            }
        }
    }

    #[test]
    fn a_heartbeat_is_known_by_its_time_and_not_by_its_age() {
        let revocations = Revocations::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        for second in 0..100 {
            revocations.heartbeat_begun(at(second), ago(100 - second.unsigned_abs()));
        }
        assert!(revocations.heartbeat_with(at(99)).is_some_and(|began| began.elapsed() < Duration::from_secs(2)));
        assert!(revocations.heartbeat_with(at(36)).is_some());
        assert_eq!(revocations.heartbeat_with(at(35)), None);
        assert_eq!(revocations.heartbeat_with(at(100)), None);
    }
}
