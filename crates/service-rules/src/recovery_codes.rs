//! Recovery codes: what a user who lost every passkey enters instead, after a sign-in by email code. Each works once.
//!
//! A code is 80 random bits, written as 16 characters of Crockford's base32, which has no letters that look like digits. So people
//! can copy it from paper. No attacker can guess it, also not with its digest.

/// Codes of a user. New ones replace those that are left.
pub const RECOVERY_CODES: usize = 10;
/// Random bytes of a code.
pub const RECOVERY_CODE_BYTES: usize = 10;

const CHARACTERS: usize = RECOVERY_CODE_BYTES * 8 / 5;
/// Characters between two dashes.
const GROUP: usize = 4;
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// A recovery code. Only [`written`](Self::written) shows it, to its user.
#[derive(Clone, PartialEq, Eq)]
pub struct RecoveryCode([u8; RECOVERY_CODE_BYTES]);

impl RecoveryCode {
    /// A code of these random bytes.
    #[must_use]
    pub const fn new(random: [u8; RECOVERY_CODE_BYTES]) -> Self {
        Self(random)
    }

    /// Reads a code as people type it: in either case, with or without dashes and spaces, and with the letters that look like
    /// digits.
    #[must_use]
    pub fn fold(text: &str) -> Option<Self> {
        let mut characters = text.bytes().filter(|byte| !matches!(byte, b' ' | b'-'));
        let mut bits: u128 = 0;
        for _ in 0..CHARACTERS {
            let character = match characters.next()?.to_ascii_lowercase() {
                b'o' => b'0',
                b'i' | b'l' => b'1',
                other => other,
            };
            let value = ALPHABET.iter().position(|&known| known == character)?;
            bits = bits << 5 | value as u128;
        }
        let bytes = bits.to_be_bytes();
        let (_, code) = bytes.split_last_chunk()?;
        characters.next().is_none().then_some(Self(*code))
    }

    /// The code in groups with dashes between them.
    #[must_use]
    pub fn written(&self) -> String {
        let mut bits = self.0.iter().fold(0, |bits: u128, byte| bits << 8 | u128::from(*byte));
        let mut text = Vec::with_capacity(CHARACTERS + CHARACTERS / GROUP);
        for place in 0..CHARACTERS {
            if place > 0 && place % GROUP == 0 {
                text.push('-');
            }
            text.push(char::from(ALPHABET[(bits & 31) as usize]));
            bits >>= 5;
        }
        text.into_iter().rev().collect()
    }

    /// What is hashed.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; RECOVERY_CODE_BYTES] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_code_is_read_as_people_type_it() {
        let code = RecoveryCode::new([0x00, 0x44, 0x32, 0x14, 0xc7, 0x42, 0x54, 0xb6, 0x35, 0xcf]);
        assert_eq!(code.written(), "0123-4567-89ab-cdef");
        let written = code.written();
        for text in
            [written.to_uppercase(), written.replace('-', ""), written.replace('-', " "), format!(" {written} ")]
        {
            assert!(RecoveryCode::fold(&text) == Some(code.clone()), "{text}");
        }
        assert!(RecoveryCode::fold(&written.replace('0', "O").replace('1', "l")) == Some(code));
    }

    #[test]
    fn what_is_not_a_code_is_not_read() {
        let cut = ["", "0123-4567-89ab-cde", "0123-4567-89ab-cdefg"];
        let strange = ["0123-4567-89ab-cdeu", "0123_4567_89ab_cdef", "é123-4567-89ab-cdef"];
        for text in cut.into_iter().chain(strange) {
            assert!(RecoveryCode::fold(text).is_none(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_code_is_read_as_it_was_written(random: [u8; RECOVERY_CODE_BYTES]) {
            let code = RecoveryCode::new(random);
            let written = code.written();
            prop_assert_eq!(written.len(), 19);
            prop_assert!(RecoveryCode::fold(&written) == Some(code));
        }

        #[test]
        fn no_text_is_a_surprise(text in ".{0,40}") {
            drop(RecoveryCode::fold(&text));
        }
    }
}
