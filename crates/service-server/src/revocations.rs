//! What this node knows about credentials that ended before their time; `revocation_feed.rs` keeps it up to date.
//!
//! A node that could not read the table for 30 seconds does not know what ended meanwhile, and accepts nothing.

use std::{
    sync::{PoisonError, RwLock},
    time::Duration,
};

use service_api::ids::{CliTokenId, UserId, WorkspaceId};
use service_rules::{
    Timestamp,
    bearer::{Claims, Refusal},
    revocation::{Ending, Endings},
};
use tokio::{sync::Notify, time::Instant};

use crate::{database, failure::Failure, store::revocations::News};

const STALE_AFTER: Duration = Duration::from_secs(30);
/// About 200 bytes each.
const REMEMBERED: usize = 500_000;

pub struct Revocations {
    known: RwLock<Known>,
    /// Rung when there may be something to read.
    pub(crate) news: Notify,
    /// Rung when this node wrote something that others should read.
    pub(crate) bell: Notify,
}

struct Known {
    endings: Endings,
    /// When the last read that succeeded began.
    confirmed_at: Option<Instant>,
    clock_is_off: bool,
}

impl Default for Revocations {
    fn default() -> Self {
        let known = Known { endings: Endings::with_capacity(REMEMBERED), confirmed_at: None, clock_is_off: false };
        Self { known: RwLock::new(known), news: Notify::new(), bell: Notify::new() }
    }
}

impl Revocations {
    /// Whether nothing ended a token with these claims, signed by this key; broken if this node cannot know.
    pub fn judge(&self, claims: &Claims, key_id: &str) -> Result<(), Failure<Refusal>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.check()?;
        known.endings.judge(claims, key_id).map_err(Failure::Refused)
    }

    /// Whether nothing has happened to a token for automation since it was looked up; an error if this node cannot know.
    pub fn is_unchanged(
        &self,
        id: CliTokenId,
        user_id: UserId,
        workspace: Option<WorkspaceId>,
        since: i64,
    ) -> anyhow::Result<bool> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.check()?;
        Ok(known.endings.is_unchanged(id, user_id, workspace, since))
    }

    /// Grants opened before this moment are over; an error if this node cannot know.
    pub fn epoch(&self) -> anyhow::Result<Option<Timestamp>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.check()?;
        Ok(known.endings.epoch())
    }

    /// Whether everything of everybody was ended after this moment; an error if this node cannot know.
    pub fn ended_everybody_since(&self, at: Timestamp) -> anyhow::Result<bool> {
        Ok(self.epoch()?.is_some_and(|epoch| at < epoch))
    }

    /// An error if this node does not know what was ended, or goes by a clock that nobody else goes by.
    pub fn check(&self) -> anyhow::Result<()> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).check()
    }

    #[must_use]
    pub fn clock_is_off(&self) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clock_is_off
    }

    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).is_fresh()
    }

    /// How many endings are remembered, and how many seconds ago the last read began.
    #[must_use]
    pub fn state(&self) -> (usize, f64) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let age = known.confirmed_at.map_or(f64::INFINITY, |at| at.elapsed().as_secs_f64());
        (known.endings.len(), age)
    }

    /// What this node itself has just committed: known here at once, and told to the others.
    pub fn committed(&self, endings: Vec<Ending>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for ending in endings {
            known.endings.insert(ending);
        }
        drop(known);
        self.bell.notify_one();
    }

    /// What a read that began at this moment found.
    pub(crate) fn read(&self, began: Instant, news: News, clock_is_off: bool, now: Timestamp) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for ending in news.endings {
            known.endings.insert(ending);
        }
        if !clock_is_off {
            known.endings.forget_expired(now);
        }
        known.confirmed_at = Some(began);
        known.clock_is_off = clock_is_off;
    }
}

impl Known {
    fn is_fresh(&self) -> bool {
        self.confirmed_at.is_some_and(|at| at.elapsed() <= STALE_AFTER)
    }

    fn check(&self) -> anyhow::Result<()> {
        if self.clock_is_off {
            Err(unavailable("this node's clock differs from the database's by more than ten seconds"))
        } else if !self.is_fresh() {
            Err(unavailable("the revocations were not seen lately"))
        } else {
            Ok(())
        }
    }
}

fn unavailable(what: &str) -> anyhow::Error {
    database::Error::Unavailable(what.to_owned()).into()
}
