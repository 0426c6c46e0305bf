//! Mails about sign-ins that are new to an account: on a device, or with an app, that has not signed in before.

use crate::{Timestamp, lifetimes, signing::later};

/// Whether a user is mailed about a new sign-in. In the first hour of an account every sign-in is new, and no mail is sent.
#[must_use]
pub fn is_mailed(account_created_at: Timestamp, now: Timestamp) -> bool {
    later(account_created_at, lifetimes::NEW_ACCOUNT) <= now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_hour_of_an_account_is_quiet_nd_02() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert!(!is_mailed(at(0), at(3_599)) && is_mailed(at(0), at(3_600)));
        assert!(!is_mailed(at(10), at(0)));
    }
}
