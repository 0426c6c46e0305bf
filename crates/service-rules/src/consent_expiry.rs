//! When the access that a user gives to a client expires.

use crate::{Timestamp, lifetimes, signing::later};

/// The lifetimes that a user can choose, in days. The longest lifetime of a session is offered besides.
const OFFERED_DAYS: [i64; 4] = [1, 7, 30, 90];

const DAY: i64 = 86_400;

/// What precedes a date in the form.
const UNTIL: &str = "until.";

/// What the user chose on the consent page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryChoice {
    /// This many days from now.
    InDays(i64),
    /// The date that the page showed: the one that was chosen before.
    At(Timestamp),
}

impl ExpiryChoice {
    /// Reads the value of the form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix(UNTIL) {
            Some(seconds) => Timestamp::from_second(seconds.parse().ok()?).ok().map(Self::At),
            None => text.parse().ok().map(Self::InDays),
        }
    }

    /// The value in the form.
    #[must_use]
    pub fn value(self) -> String {
        match self {
            Self::InDays(days) => days.to_string(),
            Self::At(at) => format!("{UNTIL}{}", at.as_second()),
        }
    }
}

/// What the consent page offers for sessions of this longest lifetime, in seconds. The default comes first, if it is a date
/// that the user chose before, and otherwise last.
#[must_use]
pub fn offered(longest: i64, kept: Option<Timestamp>) -> Vec<ExpiryChoice> {
    let days = OFFERED_DAYS.into_iter().filter(|days| days * DAY < longest).chain([longest / DAY]);
    kept.map(ExpiryChoice::At).into_iter().chain(days.map(ExpiryChoice::InDays)).collect()
}

/// The default of [`offered`].
#[must_use]
pub fn preselected(longest: i64, kept: Option<Timestamp>) -> ExpiryChoice {
    kept.map_or(ExpiryChoice::InDays(longest / DAY), ExpiryChoice::At)
}

/// The end date of a prior consent, if the user chose an earlier one than by default: a client that asks again must not get
/// the default instead.
#[must_use]
pub fn kept(agreed_at: Timestamp, expires_at: Option<Timestamp>, longest: i64) -> Option<Timestamp> {
    expires_at.filter(|at| at.as_second() < agreed_at.as_second() + longest)
}

/// The end date that a choice stands for, in whole seconds as in the form. `None`: it was not offered, or has passed.
#[must_use]
pub fn end(choice: ExpiryChoice, longest: i64, now: Timestamp) -> Option<Timestamp> {
    let seconds = match choice {
        ExpiryChoice::InDays(days) if offered(longest, None).contains(&choice) => days * DAY,
        ExpiryChoice::InDays(_) => return None,
        ExpiryChoice::At(at) => at.as_second() - now.as_second(),
    };
    let end = Timestamp::from_second(now.as_second() + seconds.min(longest)).ok()?;
    (seconds > 0).then_some(end)
}

/// Whether access tokens that were issued before can outlive this end: then the sessions are revoked instead of shortened.
#[must_use]
pub fn is_too_soon_for_tokens(end: Timestamp, now: Timestamp) -> bool {
    end < later(now, lifetimes::LONGEST_ACCESS_TOKEN + lifetimes::CLOCK_SKEW)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 999);

    fn after(seconds: i64) -> Timestamp {
        Timestamp::from_second(NOW.as_second() + seconds).unwrap()
    }

    #[test]
    fn what_is_offered_ends_with_the_longest_lifetime() {
        let days = |longest: i64| offered(longest, None).iter().map(|choice| choice.value()).collect::<Vec<_>>();
        assert_eq!(days(lifetimes::REFRESH_ABSOLUTE), ["1", "7", "30", "90"]);
        assert_eq!(days(lifetimes::REFRESH_ABSOLUTE_MCP), ["1", "7", "30", "90", "365"]);
        let longest = lifetimes::REFRESH_ABSOLUTE;
        assert_eq!(preselected(longest, None), ExpiryChoice::InDays(90));
        let kept = Some(after(5 * DAY));
        assert_eq!(offered(longest, kept)[0], preselected(longest, kept));
        for choice in offered(longest, kept) {
            assert_eq!(ExpiryChoice::parse(&choice.value()), Some(choice));
        }
    }

    #[test]
    fn an_end_is_offered_ahead_and_never_beyond_the_longest_lifetime() {
        let longest = lifetimes::REFRESH_ABSOLUTE;
        assert_eq!(end(ExpiryChoice::InDays(1), longest, NOW), Some(after(DAY)));
        assert_eq!(end(ExpiryChoice::InDays(90), longest, NOW), Some(after(90 * DAY)));
        for days in [-1, 0, 2, 91, 365, i64::MAX, i64::MIN] {
            assert_eq!(end(ExpiryChoice::InDays(days), longest, NOW), None, "{days}");
        }
        assert_eq!(end(ExpiryChoice::At(after(100)), longest, NOW), Some(after(100)));
        assert_eq!(end(ExpiryChoice::At(after(400 * DAY)), longest, NOW), Some(after(longest)));
        assert_eq!(end(ExpiryChoice::At(Timestamp::MAX), longest, NOW), Some(after(longest)));
        for past in [after(0), after(-1), Timestamp::MIN] {
            assert_eq!(end(ExpiryChoice::At(past), longest, NOW), None, "{past}");
        }
        for wrong in ["", "x", "1.5", "until.", "until.x", "until.99999999999999999999", "365 days"] {
            assert_eq!(ExpiryChoice::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_earlier_end_than_by_default_is_kept() {
        let longest = lifetimes::REFRESH_ABSOLUTE;
        assert_eq!(kept(NOW, end(ExpiryChoice::InDays(90), longest, NOW), longest), None);
        assert_eq!(kept(NOW, end(ExpiryChoice::InDays(7), longest, NOW), longest), Some(after(7 * DAY)));
        assert_eq!(kept(NOW, None, longest), None);
    }

    #[test]
    fn tokens_do_not_outlive_an_end_that_is_near() {
        assert!(is_too_soon_for_tokens(after(lifetimes::LONGEST_ACCESS_TOKEN), NOW));
        assert!(!is_too_soon_for_tokens(after(DAY), NOW));
    }
}
