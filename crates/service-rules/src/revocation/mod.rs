//! Which access tokens are revoked although they have not expired.
//!
//! A node verifies access tokens without a query, so it has to know every revocation. A revocation names a subject (a
//! grant, a user, all users …) and a time: tokens of the subject that were issued before it are revoked. All revocations
//! that concern a token count. A revocation is dropped when the last token that it can concern has expired.
//!
//! The set is bounded. When it is full the oldest revocations are dropped, and every token issued before the newest of
//! those is refused, revoked or not. Some clients then refresh early; no revoked token is accepted again.

mod packed;
pub mod position;

use std::collections::{BTreeSet, HashMap};

use service_api::{
    errors::Reason,
    ids::{CliTokenId, GrantId, UserId, WorkspaceId},
};

use self::packed::PackedRevocations;
use crate::{
    Timestamp,
    bearer::{BearerError, Claims},
    lifetimes,
    signing::later,
};

/// Whose tokens are revoked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    Grant(GrantId),
    CliToken(CliTokenId),
    User(UserId),
    /// Tokens of this user that are for this workspace.
    Membership(UserId, WorkspaceId),
    /// No tokens. The user has another role in the workspace, and what was known about it before is out of date.
    Role(UserId, WorkspaceId),
    /// Tokens that are for this workspace.
    Workspace(WorkspaceId),
    /// Tokens that this key signed.
    SigningKey(String),
    /// Tokens that this client was issued.
    Client(String),
    /// Every token.
    AllUsers,
    /// A subject that only a newer version of the service can read. It may concern any token.
    Unknown,
}

/// The status of a token that no known revocation concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevocationStatus {
    Live,
    /// A revocation that this version cannot read may concern the token: the database has to be queried.
    LookUp,
}

/// Revokes the tokens of a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    pub subject: Subject,
    pub because: Reason,
    /// Tokens issued before this time are revoked.
    pub not_before: Timestamp,
    /// From this time no token that it concerns can be valid.
    pub forget_at: Timestamp,
}

impl Revocation {
    /// A revocation that happens now.
    ///
    /// Grants, CLI tokens and keys stay revoked, so all their tokens are revoked whenever they were issued. Users may sign
    /// in again, but not at once: a node whose clock is ahead may issue a token while the revocation is being written.
    #[must_use]
    pub fn of(subject: Subject, because: Reason, now: Timestamp) -> Self {
        let settled = later(now, lifetimes::CLOCK_SKEW);
        let last_expires = later(settled, lifetimes::LONGEST_ACCESS_TOKEN + lifetimes::CLOCK_SKEW);
        let (not_before, forget_at) = match subject {
            Subject::Grant(_) | Subject::CliToken(_) | Subject::SigningKey(_) => (last_expires, last_expires),
            Subject::User(_)
            | Subject::Membership(..)
            | Subject::Role(..)
            | Subject::Workspace(_)
            | Subject::Client(_)
            | Subject::Unknown => (settled, last_expires),
            // It revokes grants too, and those that were opened before it must not outlive it.
            Subject::AllUsers => (settled, later(settled, lifetimes::LONGEST_LIFE)),
        };
        Self { subject, because, not_before, forget_at }
    }
}

/// The revocations that still concern a token.
#[derive(Debug)]
pub struct RevocationSet {
    /// Those of grants and CLI tokens.
    packed: PackedRevocations,
    /// All others.
    by_subject: HashMap<Subject, Revocation>,
    /// In the order in which they are dropped.
    order: BTreeSet<(Timestamp, Subject)>,
    capacity: usize,
    /// How many subjects are signing keys. Mostly none, and a lookup costs a copy of the key id.
    keys: usize,
    /// How many subjects are clients. Mostly none, and a lookup costs a copy of the client id.
    clients: usize,
    /// Tokens issued before this second are refused, because revocations that may concern them were dropped.
    floor: i64,
}

impl RevocationSet {
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            packed: PackedRevocations::default(),
            by_subject: HashMap::new(),
            order: BTreeSet::new(),
            capacity,
            keys: 0,
            clients: 0,
            floor: i64::MIN,
        }
    }

    /// Adds a revocation. Adding it twice has no effect; of two for one subject the stronger counts.
    pub fn insert(&mut self, revocation: Revocation) {
        if !self.packed.insert(&revocation) {
            self.insert_by_subject(revocation);
        }
        while self.len() > self.capacity {
            let Some(forget_at) = self.pop_oldest() else { return };
            self.floor = self.floor.max(floor_for(forget_at));
        }
    }

    fn insert_by_subject(&mut self, mut revocation: Revocation) {
        if let Some(known) = self.by_subject.get(&revocation.subject) {
            if revocation.subject == Subject::Unknown {
                // They may be of different kinds: each counts for its whole time.
                revocation.not_before = revocation.not_before.max(known.not_before);
                revocation.forget_at = revocation.forget_at.max(known.forget_at);
            }
            if (known.not_before, known.forget_at) >= (revocation.not_before, revocation.forget_at) {
                return;
            }
            self.order.remove(&(known.forget_at, known.subject.clone()));
        } else {
            self.keys += usize::from(matches!(revocation.subject, Subject::SigningKey(_)));
            self.clients += usize::from(matches!(revocation.subject, Subject::Client(_)));
        }
        self.order.insert((revocation.forget_at, revocation.subject.clone()));
        self.by_subject.insert(revocation.subject.clone(), revocation);
    }

    pub fn forget_expired(&mut self, now: Timestamp) {
        while self.oldest().is_some_and(|forget_at| forget_at <= now) {
            self.pop_oldest();
        }
    }

    /// Returns when the first revocation is forgotten.
    fn oldest(&self) -> Option<Timestamp> {
        let by_subject = self.order.first().map(|(forget_at, _)| *forget_at);
        [self.packed.first_forget_at(), by_subject].into_iter().flatten().min()
    }

    /// Removes the revocation that is forgotten first, and returns when that would have been.
    fn pop_oldest(&mut self) -> Option<Timestamp> {
        let oldest = self.oldest()?;
        if self.packed.first_forget_at() == Some(oldest) {
            self.packed.pop_first();
        } else if let Some((_, subject)) = self.order.pop_first() {
            self.keys -= usize::from(matches!(subject, Subject::SigningKey(_)));
            self.clients -= usize::from(matches!(subject, Subject::Client(_)));
            self.by_subject.remove(&subject);
        }
        Some(oldest)
    }

    /// Decides whether a token with these claims, signed by this key, is revoked.
    ///
    /// # Errors
    /// Why the token is refused.
    pub fn judge(&self, claims: &Claims, key_id: &str) -> Result<RevocationStatus, BearerError> {
        // A holder of a compromised key can sign anything, so the token belongs to no user who could be told why.
        if self.keys > 0 && self.by_subject.contains_key(&Subject::SigningKey(key_id.to_owned())) {
            return Err(BearerError::Invalid);
        }
        let subjects = [
            Some(Subject::Grant(claims.grant)),
            Some(Subject::User(claims.sub)),
            claims.workspace.map(|workspace| Subject::Membership(claims.sub, workspace)),
            claims.workspace.map(Subject::Workspace),
            (self.clients > 0).then(|| Subject::Client(claims.client_id.clone())),
            Some(Subject::AllUsers),
        ];
        self.judge_since(claims.iat, &subjects)?;
        let in_doubt = self.judge_since(claims.iat, &[Some(Subject::Unknown)]).is_err();
        Ok(if in_doubt { RevocationStatus::LookUp } else { RevocationStatus::Live })
    }

    /// Whether no revocation concerns a CLI token since it was looked up, in whole seconds.
    #[must_use]
    pub fn is_unchanged(&self, id: CliTokenId, user_id: UserId, workspace: Option<WorkspaceId>, since: i64) -> bool {
        let subjects = [
            Some(Subject::CliToken(id)),
            Some(Subject::User(user_id)),
            workspace.map(|workspace| Subject::Membership(user_id, workspace)),
            workspace.map(Subject::Workspace),
            Some(Subject::AllUsers),
            Some(Subject::Unknown),
        ];
        self.judge_since(since, &subjects).is_ok()
    }

    /// Whether a member's role is what it was when it was read, in whole seconds.
    #[must_use]
    pub fn is_role_unchanged(&self, user_id: UserId, workspace_id: WorkspaceId, since: i64) -> bool {
        let subjects = [
            Some(Subject::Role(user_id, workspace_id)),
            Some(Subject::Membership(user_id, workspace_id)),
            Some(Subject::User(user_id)),
            Some(Subject::Workspace(workspace_id)),
            Some(Subject::AllUsers),
            Some(Subject::Unknown),
        ];
        self.judge_since(since, &subjects).is_ok()
    }

    fn judge_since(&self, since: i64, subjects: &[Option<Subject>]) -> Result<(), BearerError> {
        if since < self.floor {
            return Err(BearerError::Expired);
        }
        if let Some(reason) = subjects.iter().flatten().find_map(|subject| self.packed.reason(subject)) {
            return Err(BearerError::Revoked(reason));
        }
        if self.by_subject.is_empty() {
            return Ok(());
        }
        let mut revocations = subjects.iter().flatten().filter_map(|subject| self.by_subject.get(subject));
        match revocations.find(|revocation| since < whole_second_behind(revocation.not_before)) {
            Some(revocation) => Err(BearerError::Revoked(revocation.because)),
            None => Ok(()),
        }
    }

    /// Grants opened before this time are revoked.
    #[must_use]
    pub fn epoch(&self) -> Option<Timestamp> {
        self.by_subject.get(&Subject::AllUsers).map(|revocation| revocation.not_before)
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.packed.len() + self.by_subject.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of bytes that revocations of grants and CLI tokens take, which are nearly all.
    #[must_use]
    pub fn allocated(&self) -> usize {
        self.packed.allocated()
    }
}

/// The second after the last one in which a token can have been issued that a revocation concerns.
fn floor_for(forget_at: Timestamp) -> i64 {
    whole_second_behind(forget_at) - lifetimes::LONGEST_ACCESS_TOKEN - lifetimes::CLOCK_SKEW
}

/// The end of the second that contains `at`. Tokens say in whole seconds when they were issued.
fn whole_second_behind(at: Timestamp) -> i64 {
    at.as_second() + i64::from(at.subsec_nanosecond() > 0)
}

#[cfg(test)]
mod tests;
