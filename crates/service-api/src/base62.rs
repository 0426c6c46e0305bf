//! Base62 of fixed-length bytes: letters and digits only, so that a double click selects a whole token.

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// How many characters `bytes` bytes take: the smallest number that can hold every value.
#[must_use]
pub const fn length(bytes: usize) -> usize {
    // log(256) / log(62) = 1.34359…, rounded up.
    (bytes * 134_360).div_ceil(100_000)
}

/// Writes `bytes` as exactly [`length`] characters.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut digits = vec![0_u8; length(bytes.len())];
    for &byte in bytes {
        let mut carry = u32::from(byte);
        for digit in digits.iter_mut().rev() {
            let value = u32::from(*digit) * 256 + carry;
            *digit = (value % 62) as u8;
            carry = value / 62;
        }
    }
    digits.into_iter().map(|digit| char::from(ALPHABET[usize::from(digit)])).collect()
}

/// Reads what [`encode`] wrote for `N` bytes; any other text, also a number too large for them, is `None`.
#[must_use]
pub fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != length(N) {
        return None;
    }
    let mut bytes = [0_u8; N];
    for character in text.bytes() {
        let mut carry = u32::try_from(ALPHABET.iter().position(|&known| known == character)?).ok()?;
        for byte in bytes.iter_mut().rev() {
            let value = u32::from(*byte) * 62 + carry;
            *byte = (value & 0xff) as u8;
            carry = value >> 8;
        }
        if carry != 0 {
            return None;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extremes_survive_a_round_trip() {
        for bytes in [[0_u8; 32], [0xff; 32], std::array::from_fn(|place| u8::try_from(place * 7 % 256).unwrap())] {
            let text = encode(&bytes);
            assert_eq!(text.len(), 43);
            assert_eq!(decode(&text), Some(bytes));
        }
    }

    #[test]
    fn a_number_too_large_and_a_foreign_character_are_refused() {
        assert_eq!(decode::<32>(&"z".repeat(43)), None);
        assert_eq!(decode::<4>("00000-"), None);
        assert_eq!(decode::<4>("0000"), None);
    }
}
