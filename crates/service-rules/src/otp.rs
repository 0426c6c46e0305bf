//! One-time codes: their form, and whether one signs a user in.

use crate::limits::Limited;

/// Digits of a code.
pub const OTP_DIGITS: usize = 8;
/// Attempts after which a code is invalid.
pub const MAX_OTP_ATTEMPTS: i16 = 5;

/// A code that a user typed, reduced to its digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Typed([u8; OTP_DIGITS]);

impl Typed {
    /// Reads a typed code. Users type codes as they are shown, in two halves; ASCII spaces and dashes are ignored.
    #[must_use]
    pub fn fold(text: &str) -> Option<Self> {
        let mut digits = text.bytes().filter(|byte| !matches!(byte, b' ' | b'-'));
        let mut typed = [0; OTP_DIGITS];
        for place in &mut typed {
            *place = digits.next().filter(u8::is_ascii_digit)?;
        }
        digits.next().is_none().then_some(Self(typed))
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What is known about an attempt, once it has been counted.
#[derive(Clone, Copy, Debug)]
pub struct Tried {
    /// The code is the one that was sent.
    pub matches: bool,
    /// The account that the address belongs to is disabled.
    pub user_disabled: bool,
}

/// What an attempt means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtpVerdict {
    SignIn,
    /// Respond with an error. The attempt stays counted.
    Refuse(OtpError),
}

/// Why a code is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OtpError {
    /// The code is wrong, used, expired, exhausted, replaced, for another client, or of a disabled account. The response is
    /// the same for all of these, so that an attacker does not learn which.
    #[error("the code is not accepted")]
    NotAccepted,
    /// Too many wrong codes from this device, for this address, from this network, or from all callers together.
    #[error(transparent)]
    Limited(#[from] Limited),
}

/// Decides what an attempt means.
#[must_use]
pub fn judge(tried: Tried) -> OtpVerdict {
    if tried.matches && !tried.user_disabled { OtpVerdict::SignIn } else { OtpVerdict::Refuse(OtpError::NotAccepted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_as_people_type_it_ot_14() {
        for text in ["12345678", "1234 5678", "1234-5678", " 12 34 56 78 ", "1-2-3-4-5-6-7-8"] {
            assert_eq!(Typed::fold(text).map(|typed| typed.0), Some(*b"12345678"), "{text}");
        }
        for text in ["", "1234567", "123456789", "1234567a", "１２３４５６７８", "1234\u{a0}5678", "1234_5678"]
        {
            assert!(Typed::fold(text).is_none(), "{text}");
        }
    }

    #[test]
    fn only_the_right_code_of_an_open_account_signs_in() {
        let check = |matches, user_disabled, expected| assert_eq!(judge(Tried { matches, user_disabled }), expected);
        check(true, false, OtpVerdict::SignIn);
        check(true, true, OtpVerdict::Refuse(OtpError::NotAccepted));
        check(false, false, OtpVerdict::Refuse(OtpError::NotAccepted));
        check(false, true, OtpVerdict::Refuse(OtpError::NotAccepted));
    }
}
