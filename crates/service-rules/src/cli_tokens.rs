//! Limits of CLI tokens: a CLI token never has more rights than the session that creates it, and always expires.

use service_api::{Timestamp, cli_tokens::MAX_NAME, errors::Reason, ids::WorkspaceId, scope::Scopes};

use crate::{
    display_name::{DisplayName, OwnNames},
    lifetimes,
    signing::later,
};

const DAY: i64 = 86_400;
const HOUR: i64 = 3_600;

/// A field of a request has an invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the field {field} {message}")]
pub struct FieldError {
    pub field: &'static str,
    /// What is wrong, as the end of a sentence that begins with the field's name.
    pub message: String,
}

/// Checks the name that a user gives a token. Emails quote it.
///
/// # Errors
/// The name cannot be displayed safely.
pub fn check_name(name: Option<&str>, own_names: &OwnNames) -> Result<DisplayName, FieldError> {
    let name = DisplayName::parse(name.unwrap_or("Token"), MAX_NAME, own_names);
    name.map_err(|wrong| FieldError { field: "name", message: wrong.message() })
}

/// When a new token expires: after 90 days by default, after 366 at most, and not after the session that creates it.
///
/// # Errors
/// The number of days is out of range.
pub fn choose_expiry(days: Option<i64>, session_ends_at: Timestamp, now: Timestamp) -> Result<Timestamp, FieldError> {
    let longest = (session_ends_at.as_second() - now.as_second()).min(lifetimes::CLI_TOKEN_LONGEST);
    let asked = match days {
        None if longest > 0 => return Ok(later(now, lifetimes::CLI_TOKEN.min(longest)).min(session_ends_at)),
        None => None,
        Some(days) => days.checked_mul(DAY),
    };
    match asked {
        Some(seconds) if (DAY..=longest).contains(&seconds) => Ok(later(now, seconds).min(session_ends_at)),
        _ => Err(FieldError {
            field: "expiresInDays",
            message: format!("must be 1 to {}: a token can't outlive your session", longest / DAY),
        }),
    }
}

/// When the old token of a rotation expires: at once, or some hours later, but never later than it would have anyway.
///
/// # Errors
/// The number of hours is out of range.
pub fn choose_overlap(hours: Option<i64>, ends_at: Timestamp, now: Timestamp) -> Result<Timestamp, FieldError> {
    let hours = hours.unwrap_or(0);
    if !(0..=lifetimes::CLI_TOKEN_OVERLAP / HOUR).contains(&hours) {
        let message = format!("must be 0 to {}", lifetimes::CLI_TOKEN_OVERLAP / HOUR);
        return Err(FieldError { field: "overlapHours", message });
    }
    Ok(later(now, hours * HOUR).min(ends_at))
}

/// What decides whether a token is valid. The presented secret has been verified.
#[derive(Clone, Debug)]
pub struct CliTokenFacts {
    pub scopes: Scopes,
    pub workspace_id: Option<WorkspaceId>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub ended: Option<Reason>,
    pub user_disabled: bool,
    pub workspace_left: bool,
    /// From this time the user has to sign in through their company before the token works again.
    pub sso_until: Option<Timestamp>,
}

/// Decides whether a token is valid now.
///
/// # Errors
/// Why it is not; the holder of the token is told.
pub fn judge(token: &CliTokenFacts, now: Timestamp) -> Result<(), Reason> {
    if let Some(reason) = token.ended {
        Err(reason)
    } else if token.expires_at <= now {
        Err(Reason::Expired)
    } else if token.user_disabled {
        Err(Reason::UserDisabled)
    } else if token.workspace_left {
        Err(Reason::WorkspaceRemoved)
    } else if token.sso_until.is_some_and(|until| until <= now) {
        Err(Reason::SsoAgain)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_token_ends_with_its_maker_at_the_latest() {
        let far = at(NOW + 1_000 * DAY);
        let soon = at(NOW + 10 * DAY);
        let days = |days, actor| choose_expiry(days, actor, at(NOW)).map(|end| (end.as_second() - NOW) / DAY).ok();
        assert_eq!(days(None, far), Some(90));
        assert_eq!(days(None, soon), Some(10));
        assert_eq!(days(Some(1), far), Some(1));
        assert_eq!(days(Some(366), far), Some(366));
        for wrong in [0, -1, 367, i64::MAX, i64::MIN] {
            assert_eq!(days(Some(wrong), far), None, "{wrong}");
        }
        assert_eq!(days(Some(10), soon), Some(10));
        assert_eq!(days(Some(11), soon), None);
    }

    #[test]
    fn an_overlap_is_short_and_never_longer_than_the_token() {
        let ends = at(NOW + 10 * HOUR);
        let hours = |hours| choose_overlap(hours, ends, at(NOW)).map(|end| (end.as_second() - NOW) / HOUR).ok();
        assert_eq!(
            (hours(None), hours(Some(0)), hours(Some(5)), hours(Some(72))),
            (Some(0), Some(0), Some(5), Some(10))
        );
        assert_eq!((hours(Some(73)), hours(Some(-1)), hours(Some(i64::MAX))), (None, None, None));
    }

    #[test]
    fn a_name_is_something_to_read() {
        let own = OwnNames::default();
        let checked = |name| check_name(name, &own).map(DisplayName::into_string);
        assert_eq!(checked(None).as_deref(), Ok("Token"));
        assert_eq!(checked(Some(" deploy ")).as_deref(), Ok("deploy"));
        for wrong in ["", "  ", "a\nb", "a\u{0}", "a\u{202e}b", "a\u{200b}", "see https://evil.test", &"x".repeat(101)]
        {
            assert!(check_name(Some(wrong), &own).is_err(), "{wrong:?}");
        }
        assert!(check_name(Some(&"é".repeat(100)), &own).is_ok());
    }

    #[test]
    fn every_reason_for_which_a_token_is_dead() {
        let alive = CliTokenFacts {
            scopes: Scopes::READ,
            workspace_id: None,
            created_at: at(NOW),
            expires_at: at(NOW + DAY),
            ended: None,
            user_disabled: false,
            workspace_left: false,
            sso_until: None,
        };
        assert_eq!(judge(&alive, at(NOW)), Ok(()));
        assert_eq!(judge(&alive, at(NOW + DAY)), Err(Reason::Expired));
        let ended = CliTokenFacts { ended: Some(Reason::Leaked), ..alive.clone() };
        assert_eq!(judge(&ended, at(NOW + DAY)), Err(Reason::Leaked));
        assert_eq!(judge(&CliTokenFacts { user_disabled: true, ..alive.clone() }, at(NOW)), Err(Reason::UserDisabled));
        let waiting = CliTokenFacts { sso_until: Some(at(NOW + 5)), ..alive.clone() };
        assert_eq!((judge(&waiting, at(NOW + 4)), judge(&waiting, at(NOW + 5))), (Ok(()), Err(Reason::SsoAgain)));
        assert_eq!(judge(&CliTokenFacts { workspace_left: true, ..alive }, at(NOW)), Err(Reason::WorkspaceRemoved));
    }
}
