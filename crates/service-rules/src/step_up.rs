//! Step-up: which sign-ins are recent enough for actions that need one.
//!
//! A session lasts for months and can be stolen. Actions with lasting effect, such as creating a credential or an owner,
//! therefore need a sign-in of the last [`RECENT_SIGN_IN`](lifetimes::RECENT_SIGN_IN) seconds. The time of an existing
//! sign-in never changes: a user who signs in again opens a new grant.

use crate::{Timestamp, lifetimes, signing::later};

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
}
