//! Which bounces stop mail to an address, and for how long.

use crate::lifetimes::SUPPRESSION;

/// For how many seconds mail to an address is not sent: after its first bounce, after the second, and after each further one.
/// The first times are short, because mail systems report addresses as unknown by mistake, and a user cannot sign in meanwhile.
pub const SUPPRESSED_SECONDS: [i64; 3] = [3_600, 12 * 3_600, SUPPRESSION];

/// The statuses (RFC 3463) that say for good that the recipient's address is wrong: the unknown mailbox, the unknown domain, the
/// wrong syntax, the mailbox that moved, and the domain without mail. Not 5.1.0, 5.1.7 and 5.1.8, by which servers also refuse a
/// sender.
const WRONG_ADDRESS: [&str; 5] = ["5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10"];

/// Returns the status of a report if it says that the recipient's address is wrong. What follows the status is the text of a
/// stranger, and left out.
#[must_use]
pub fn wrong_address(status: &str) -> Option<&'static str> {
    let code = status.split_ascii_whitespace().next()?;
    WRONG_ADDRESS.into_iter().find(|known| *known == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wrong_address_of_the_recipient_counts() {
        for status in ["5.1.1", "5.1.1 (bad destination mailbox address)", "5.1.2", "5.1.3", "5.1.6", "5.1.10"] {
            assert!(wrong_address(status).is_some_and(|code| status.starts_with(code)), "{status}");
        }
        for status in ["", "5.1.0", "5.1.7", "5.1.8", "5.2.2", "5.7.1", "4.1.1", "2.1.5", "5.1", "5.1.11", "x5.1.1"] {
            assert_eq!(wrong_address(status), None, "{status}");
        }
    }

    #[test]
    fn mail_is_suppressed_for_three_days_at_most() {
        assert!(SUPPRESSED_SECONDS.is_sorted());
        assert_eq!(SUPPRESSED_SECONDS.iter().max(), Some(&(3 * 86_400)));
    }
}
