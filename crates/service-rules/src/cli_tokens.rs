//! What a token for automation may be: never more than its maker, and never for ever.

use service_api::{Timestamp, cli_tokens::MAX_NAME, errors::Reason, ids::WorkspaceId, scope::Scopes};

use crate::{lifetimes, signing::later};

const DAY: i64 = 86_400;
const HOUR: i64 = 3_600;

/// What is wrong with what was asked for: the field, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    pub field: &'static str,
    pub message: String,
}

/// A name that people can tell tokens apart by.
pub fn check_name(name: Option<&str>) -> Result<String, Invalid> {
    let name = name.unwrap_or("Token").trim();
    // It is written into mails: nothing that turns text round, hides it or leads elsewhere.
    let hides = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let usable =
        !name.is_empty() && name.chars().count() <= MAX_NAME && !name.chars().any(hides) && !name.contains("://");
    let message = || format!("is not 1 to {MAX_NAME} printable characters, and no address");
    if usable { Ok(name.to_owned()) } else { Err(Invalid { field: "name", message: message() }) }
}

/// When it ends: 90 days from now unless asked otherwise, 366 at most, and not after the session that makes it.
pub fn choose_end(days: Option<i64>, maker_ends_at: Timestamp, now: Timestamp) -> Result<Timestamp, Invalid> {
    let longest = (maker_ends_at.as_second() - now.as_second()).min(lifetimes::CLI_TOKEN_LONGEST);
    let asked = match days {
        None if longest > 0 => return Ok(later(now, lifetimes::CLI_TOKEN.min(longest)).min(maker_ends_at)),
        None => None,
        Some(days) => days.checked_mul(DAY),
    };
    match asked {
        Some(seconds) if (DAY..=longest).contains(&seconds) => Ok(later(now, seconds).min(maker_ends_at)),
        _ => Err(Invalid {
            field: "expiresInDays",
            message: format!("is not 1 to {}, which is as long as your session lasts", longest / DAY),
        }),
    }
}

/// When the old token of a rotation ends: at once, or some hours later, and never later than it would have.
pub fn choose_overlap(hours: Option<i64>, ends_at: Timestamp, now: Timestamp) -> Result<Timestamp, Invalid> {
    let hours = hours.unwrap_or(0);
    if !(0..=lifetimes::CLI_TOKEN_OVERLAP / HOUR).contains(&hours) {
        let message = format!("is not 0 to {}", lifetimes::CLI_TOKEN_OVERLAP / HOUR);
        return Err(Invalid { field: "overlapHours", message });
    }
    Ok(later(now, hours * HOUR).min(ends_at))
}

/// A token as it was found, by a holder of the right secret.
#[derive(Clone, Debug)]
pub struct Found {
    pub scopes: Scopes,
    pub workspace_id: Option<WorkspaceId>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub ended: Option<Reason>,
    pub user_disabled: bool,
    pub workspace_left: bool,
}

/// Whether it is alive; its holder is told why not.
pub fn judge(token: &Found, now: Timestamp) -> Result<(), Reason> {
    if let Some(reason) = token.ended {
        Err(reason)
    } else if token.expires_at <= now {
        Err(Reason::Expired)
    } else if token.user_disabled {
        Err(Reason::UserDisabled)
    } else if token.workspace_left {
        Err(Reason::WorkspaceRemoved)
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
        let days = |days, maker| choose_end(days, maker, at(NOW)).map(|end| (end.as_second() - NOW) / DAY).ok();
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
        assert_eq!(check_name(None).as_deref(), Ok("Token"));
        assert_eq!(check_name(Some(" deploy ")).as_deref(), Ok("deploy"));
        for wrong in ["", "  ", "a\nb", "a\u{0}", "a\u{202e}b", "a\u{200b}", "see https://evil.test", &"x".repeat(101)]
        {
            assert!(check_name(Some(wrong)).is_err(), "{wrong:?}");
        }
        assert!(check_name(Some(&"é".repeat(100))).is_ok());
    }

    #[test]
    fn every_reason_for_which_a_token_is_dead() {
        let alive = Found {
            scopes: Scopes::READ,
            workspace_id: None,
            created_at: at(NOW),
            expires_at: at(NOW + DAY),
            ended: None,
            user_disabled: false,
            workspace_left: false,
        };
        assert_eq!(judge(&alive, at(NOW)), Ok(()));
        assert_eq!(judge(&alive, at(NOW + DAY)), Err(Reason::Expired));
        let ended = Found { ended: Some(Reason::Leaked), ..alive.clone() };
        assert_eq!(judge(&ended, at(NOW + DAY)), Err(Reason::Leaked));
        assert_eq!(judge(&Found { user_disabled: true, ..alive.clone() }, at(NOW)), Err(Reason::UserDisabled));
        assert_eq!(judge(&Found { workspace_left: true, ..alive }, at(NOW)), Err(Reason::WorkspaceRemoved));
    }
}
