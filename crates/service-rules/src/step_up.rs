//! Step-up: which sign-ins are enough for actions that need a recent one.
//!
//! A session lasts for months and can be stolen. Actions with lasting effect, such as creating a credential or an owner,
//! therefore need a sign-in of the last [`RECENT_SIGN_IN`](lifetimes::RECENT_SIGN_IN) seconds. The time of an existing
//! sign-in never changes: a user who signs in again opens a new grant.
//!
//! An email code can be phished, and an attacker may read the mailbox. So the code of a user who has a passkey still signs in,
//! but is not enough for such actions: they need the passkey, or the company's single sign-on.
//!
//! The first passkey counts for that [`PASSKEY_NEW`](lifetimes::PASSKEY_NEW) seconds after it was added. Otherwise an attacker with
//! one stolen code could add a passkey, and the user, who has none, could no longer remove it. A passkey of which another device
//! has a copy does not count.
//!
//! A user may require a passkey to sign in. Then a code opens no session, and only leads to the page that asks for the passkey.

use crate::{Timestamp, lifetimes, signing::later};

/// How a user has to sign in before an action that needs a recent sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepUp {
    AnySignIn,
    /// By a passkey or through single sign-on.
    NoCode,
}

impl StepUp {
    /// What a user has to do who has a passkey that counts, or has none.
    #[must_use]
    pub const fn of(has_passkey: bool) -> Self {
        if has_passkey { Self::NoCode } else { Self::AnySignIn }
    }

    /// When the user of a sign-in by code authenticated, as far as step-up is concerned. `None`: the code is not enough.
    #[must_use]
    pub fn auth_time_of_code(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::AnySignIn => Some(now),
            Self::NoCode => None,
        }
    }
}

/// From when on a passkey that is added now counts. One that is added with the help of another counts at once.
#[must_use]
pub fn counts_from(has_passkey: bool, now: Timestamp) -> Timestamp {
    if has_passkey { now } else { later(now, lifetimes::PASSKEY_NEW) }
}

/// Whether a sign-in at this time is recent. An unknown time is not.
#[must_use]
pub fn is_recent(auth_time: Option<Timestamp>, now: Timestamp) -> bool {
    auth_time.is_some_and(|at| at >= later(now, -lifetimes::RECENT_SIGN_IN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_in_is_recent_for_fifteen_minutes_rv_06() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert!(is_recent(Some(at(1_000)), at(1_000)));
        assert!(is_recent(Some(at(1_000)), at(1_900)));
        assert!(!is_recent(Some(at(1_000)), at(1_901)));
        assert!(!is_recent(None, at(1_000)));
    }

    #[test]
    fn the_first_passkey_counts_after_seven_days_and_another_one_at_once() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!((counts_from(false, at(0)), counts_from(true, at(0))), (at(7 * 86_400), at(0)));
    }

    #[test]
    fn the_code_of_a_user_who_has_a_passkey_is_never_recent() {
        let now = Timestamp::from_second(1_000).unwrap();
        assert!(is_recent(StepUp::of(false).auth_time_of_code(now), now));
        assert!(!is_recent(StepUp::of(true).auth_time_of_code(now), now));
    }
}
