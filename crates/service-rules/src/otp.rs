//! One-time codes: their form, and whether one signs somebody in.

use crate::limits::Limited;

pub const DIGITS: usize = 8;
/// Wrong tries after which a code is dead.
pub const TRIES: i16 = 5;

/// A code as typed, in its one form: digits only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Typed([u8; DIGITS]);

impl Typed {
    /// People type codes as they are shown, in two halves; ASCII spaces and dashes do not count.
    #[must_use]
    pub fn fold(text: &str) -> Option<Self> {
        let mut digits = text.bytes().filter(|byte| !matches!(byte, b' ' | b'-'));
        let mut typed = [0; DIGITS];
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

/// What is known once the try has been counted.
#[derive(Clone, Copy, Debug)]
pub struct Tried {
    /// The code is the one that was mailed.
    pub matches: bool,
    /// The account the address belongs to is closed.
    pub user_disabled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    SignIn,
    /// Answer with an error; the try stays counted.
    Refuse(Refusal),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Wrong, spent, expired, exhausted, replaced, another client's, or a closed account: one answer for all, so that
    /// nobody learns which.
    NotAccepted,
    /// Too many wrong codes for this address, or for everybody.
    Limited(Limited),
}

#[must_use]
pub fn judge(tried: Tried) -> Verdict {
    if tried.matches && !tried.user_disabled { Verdict::SignIn } else { Verdict::Refuse(Refusal::NotAccepted) }
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
        check(true, false, Verdict::SignIn);
        check(true, true, Verdict::Refuse(Refusal::NotAccepted));
        check(false, false, Verdict::Refuse(Refusal::NotAccepted));
        check(false, true, Verdict::Refuse(Refusal::NotAccepted));
    }
}
