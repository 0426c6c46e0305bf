//! Which access tokens are dead although they have not expired.
//!
//! Tokens are verified without asking anybody, so what ended early must be known. Each ending names a subject (a grant,
//! a user, everybody …) and a moment: the subject's tokens that were issued before it are dead. All endings that concern
//! a token count, none hides another. An ending is forgotten when the last token it can concern has expired.
//!
//! The set is bounded. When it is full the oldest endings leave it, and every token issued before the youngest of those
//! is dead, ended or not: a few people refresh earlier than they would have, and nothing dead comes to life.

use std::collections::{BTreeSet, HashMap};

use service_api::{
    errors::Reason,
    ids::{CliTokenId, GrantId, UserId, WorkspaceId},
};

use crate::{
    Timestamp,
    bearer::{Claims, Refusal},
    lifetimes,
    signing::later,
};

/// Whose tokens are ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    Grant(GrantId),
    CliToken(CliTokenId),
    User(UserId),
    /// Tokens of this user that are for this workspace.
    Membership(UserId, WorkspaceId),
    /// Tokens that are for this workspace.
    Workspace(WorkspaceId),
    /// Tokens that this key signed.
    SigningKey(String),
    Everybody,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    pub subject: Subject,
    pub because: Reason,
    /// Tokens issued before this are dead.
    pub not_before: Timestamp,
    /// When no token that it concerns can be alive any more.
    pub forget_at: Timestamp,
}

impl Ending {
    /// An ending that happens now.
    ///
    /// Grants and keys do not come back, so all their tokens are dead, whenever issued. Anybody else may sign in again,
    /// but not at once: a token may be issued by a node whose clock is ahead, or while the ending is being written.
    #[must_use]
    pub fn of(subject: Subject, because: Reason, now: Timestamp) -> Self {
        let settled = later(now, lifetimes::CLOCK_SKEW);
        let last_expires = later(settled, lifetimes::LONGEST_ACCESS_TOKEN + lifetimes::CLOCK_SKEW);
        let (not_before, forget_at) = match subject {
            Subject::Grant(_) | Subject::CliToken(_) | Subject::SigningKey(_) => (last_expires, last_expires),
            Subject::User(_) | Subject::Membership(..) | Subject::Workspace(_) => (settled, last_expires),
            // It ends grants too, and those that began before it must not outlive it.
            Subject::Everybody => (settled, later(settled, lifetimes::LONGEST_LIFE)),
        };
        Self { subject, because, not_before, forget_at }
    }
}

/// The endings that still matter.
#[derive(Debug)]
pub struct Endings {
    by_subject: HashMap<Subject, Ending>,
    /// In the order in which they are forgotten.
    order: BTreeSet<(Timestamp, Subject)>,
    capacity: usize,
    /// How many of them are signing keys: hardly ever any, and looking for one costs a copy of its id.
    keys: usize,
    /// Tokens issued before this second are dead, because endings that may concern them were dropped.
    floor: i64,
}

impl Endings {
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { by_subject: HashMap::new(), order: BTreeSet::new(), capacity, keys: 0, floor: i64::MIN }
    }

    /// Hearing of an ending twice is hearing of it once; of two about one subject the stronger counts.
    pub fn insert(&mut self, ending: Ending) {
        if let Some(known) = self.by_subject.get(&ending.subject) {
            if (known.not_before, known.forget_at) >= (ending.not_before, ending.forget_at) {
                return;
            }
            self.order.remove(&(known.forget_at, known.subject.clone()));
        } else if matches!(ending.subject, Subject::SigningKey(_)) {
            self.keys += 1;
        }
        self.order.insert((ending.forget_at, ending.subject.clone()));
        self.by_subject.insert(ending.subject.clone(), ending);
        while self.by_subject.len() > self.capacity {
            let Some(dropped) = self.pop_oldest() else { return };
            self.floor = self.floor.max(floor_for(&dropped));
        }
    }

    pub fn forget_expired(&mut self, now: Timestamp) {
        while self.order.first().is_some_and(|(forget_at, _)| *forget_at <= now) {
            self.pop_oldest();
        }
    }

    fn pop_oldest(&mut self) -> Option<Ending> {
        let (_, subject) = self.order.pop_first()?;
        self.keys -= usize::from(matches!(subject, Subject::SigningKey(_)));
        self.by_subject.remove(&subject)
    }

    /// Whether nothing ended a token with these claims, signed by this key.
    pub fn judge(&self, claims: &Claims, key_id: &str) -> Result<(), Refusal> {
        // Who else has the key can sign anything: such a token is nobody's, and there is nobody to tell why.
        if self.keys > 0 && self.by_subject.contains_key(&Subject::SigningKey(key_id.to_owned())) {
            return Err(Refusal::Invalid);
        }
        let subjects = [
            Some(Subject::Grant(claims.grant)),
            Some(Subject::User(claims.sub)),
            claims.workspace.map(|workspace| Subject::Membership(claims.sub, workspace)),
            claims.workspace.map(Subject::Workspace),
            Some(Subject::Everybody),
        ];
        self.judge_since(claims.iat, &subjects)
    }

    /// Whether nothing has happened to a token for automation since it was looked up, in whole seconds.
    #[must_use]
    pub fn is_unchanged(&self, id: CliTokenId, user_id: UserId, workspace: Option<WorkspaceId>, since: i64) -> bool {
        let subjects = [
            Some(Subject::CliToken(id)),
            Some(Subject::User(user_id)),
            workspace.map(|workspace| Subject::Membership(user_id, workspace)),
            workspace.map(Subject::Workspace),
            Some(Subject::Everybody),
        ];
        self.judge_since(since, &subjects).is_ok()
    }

    fn judge_since(&self, since: i64, subjects: &[Option<Subject>]) -> Result<(), Refusal> {
        if since < self.floor {
            return Err(Refusal::Expired);
        }
        if self.by_subject.is_empty() {
            return Ok(());
        }
        let mut endings = subjects.iter().flatten().filter_map(|subject| self.by_subject.get(subject));
        match endings.find(|ending| since < whole_second_behind(ending.not_before)) {
            Some(ending) => Err(Refusal::Ended(ending.because)),
            None => Ok(()),
        }
    }

    /// Grants opened before this moment are over.
    #[must_use]
    pub fn epoch(&self) -> Option<Timestamp> {
        self.by_subject.get(&Subject::Everybody).map(|ending| ending.not_before)
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.by_subject.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_subject.is_empty()
    }
}

/// The last second in which a token that this ending concerns can have been issued, and one more.
fn floor_for(ending: &Ending) -> i64 {
    whole_second_behind(ending.forget_at) - lifetimes::LONGEST_ACCESS_TOKEN - lifetimes::CLOCK_SKEW
}

/// Tokens say when they were issued in whole seconds: a second that has begun counts as a whole.
fn whole_second_behind(at: Timestamp) -> i64 {
    at.as_second() + i64::from(at.subsec_nanosecond() > 0)
}

#[cfg(test)]
mod tests;
