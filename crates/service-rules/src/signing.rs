//! The life of a signing key: published first, then used, then kept until the last token it signed has expired.

use crate::{Timestamp, lifetimes};

/// When a key does what. Which state it is in follows from the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// From here on it signs, unless a younger key does.
    pub active_at: Timestamp,
    /// From here on nothing it signed is accepted.
    pub retired_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Published, so that every verifier knows it before the first token it signs.
    Pending,
    Active,
    /// A successor signs; what this one signed is still accepted.
    Retiring,
    Retired,
}

/// The state of `key` when `successor` is the active time of the next younger key, if there is one.
#[must_use]
pub fn state(key: Schedule, successor: Option<Timestamp>, now: Timestamp) -> State {
    if key.retired_at.is_some_and(|at| at <= now) {
        State::Retired
    } else if key.active_at > now {
        State::Pending
    } else if successor.is_some_and(|at| at <= now) {
        State::Retiring
    } else {
        State::Active
    }
}

/// When a key that is followed by one active from `successor` on may be forgotten.
#[must_use]
pub fn retire_after(successor: Timestamp) -> Timestamp {
    later(successor, lifetimes::SIGNING_KEY_OVERLAP)
}

/// `seconds` after `at`; the end of time where there is no such moment.
#[must_use]
pub fn later(at: Timestamp, seconds: i64) -> Timestamp {
    at.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(active: i64, retired: Option<i64>, successor: Option<i64>, now: i64, expected: State) {
        let at = |second| Timestamp::from_second(second).unwrap();
        let key = Schedule { active_at: at(active), retired_at: retired.map(at) };
        assert_eq!(state(key, successor.map(at), at(now)), expected);
    }

    #[test]
    fn a_key_is_published_before_it_signs() {
        check(10, None, None, 9, State::Pending);
        check(10, None, None, 10, State::Active);
    }

    #[test]
    fn a_followed_key_is_accepted_until_it_retires() {
        check(10, Some(100), Some(50), 49, State::Active);
        check(10, Some(100), Some(50), 50, State::Retiring);
        check(10, Some(100), Some(50), 100, State::Retired);
        check(10, Some(5), None, 7, State::Retired);
    }
}
