//! The life of a signing key: it is published, then signs, then is kept until the last token it signed has expired.

use crate::{Timestamp, lifetimes};

/// The times that decide the state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// From this time the key signs, unless a newer key does.
    pub active_at: Timestamp,
    /// From this time tokens that the key signed are not accepted.
    pub retired_at: Option<Timestamp>,
}

/// What a key is used for at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// Published, so that every verifier knows the key before it signs its first token.
    Pending,
    Active,
    /// A newer key signs. Tokens that this key signed are still accepted.
    Retiring,
    Retired,
}

/// The state of `key`. `successor` is the active time of the next newer key, if there is one.
#[must_use]
pub fn state(key: Schedule, successor: Option<Timestamp>, now: Timestamp) -> KeyState {
    if key.retired_at.is_some_and(|at| at <= now) {
        KeyState::Retired
    } else if key.active_at > now {
        KeyState::Pending
    } else if successor.is_some_and(|at| at <= now) {
        KeyState::Retiring
    } else {
        KeyState::Active
    }
}

/// When a key retires whose successor is active from `successor` on.
#[must_use]
pub fn retire_after(successor: Timestamp) -> Timestamp {
    later(successor, lifetimes::SIGNING_KEY_OVERLAP)
}

/// The time `seconds` after `at`; [`Timestamp::MAX`] if that is out of range.
#[must_use]
pub fn later(at: Timestamp, seconds: i64) -> Timestamp {
    at.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(active: i64, retired: Option<i64>, successor: Option<i64>, now: i64, expected: KeyState) {
        let at = |second| Timestamp::from_second(second).unwrap();
        let key = Schedule { active_at: at(active), retired_at: retired.map(at) };
        assert_eq!(state(key, successor.map(at), at(now)), expected);
    }

    #[test]
    fn a_key_is_published_before_it_signs() {
        check(10, None, None, 9, KeyState::Pending);
        check(10, None, None, 10, KeyState::Active);
    }

    #[test]
    fn a_followed_key_is_accepted_until_it_retires() {
        check(10, Some(100), Some(50), 49, KeyState::Active);
        check(10, Some(100), Some(50), 50, KeyState::Retiring);
        check(10, Some(100), Some(50), 100, KeyState::Retired);
        check(10, Some(5), None, 7, KeyState::Retired);
    }
}
