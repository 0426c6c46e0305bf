//! Base62 of fixed-length bytes: letters and digits only, so that a double click selects a whole token.

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The number of characters for `bytes` bytes: the smallest that can represent every value.
#[must_use]
pub const fn length(bytes: usize) -> usize {
    // log(256) / log(62) = 1.34359…, rounded up.
    (bytes * 134_360).div_ceil(100_000)
}

/// Five characters at a time: the largest power of 62 whose product with a byte more fits into 64 bits many times over.
const GROUP: usize = 5;
const GROUP_VALUES: u64 = 62 * 62 * 62 * 62 * 62;

/// Encodes `bytes` as exactly [`length`] characters.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let characters = length(bytes.len());
    let mut groups = vec![0_u64; characters.div_ceil(GROUP)];
    for chunk in bytes.chunks(4) {
        let mut carry = chunk.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        for group in groups.iter_mut().rev() {
            let value = (*group << (8 * chunk.len())) + carry;
            (*group, carry) = (value % GROUP_VALUES, value / GROUP_VALUES);
        }
    }
    let mut text = vec![ALPHABET[0]; groups.len() * GROUP];
    for (mut group, places) in groups.into_iter().zip(text.chunks_mut(GROUP)) {
        for place in places.iter_mut().rev() {
            *place = ALPHABET[usize::try_from(group % 62).unwrap_or_default()];
            group /= 62;
        }
    }
    text[text.len() - characters..].iter().map(|byte| char::from(*byte)).collect()
}

fn value_of(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'A'..=b'Z' => Some(character - b'A' + 10),
        b'a'..=b'z' => Some(character - b'a' + 36),
        _ => None,
    }
}

/// Decodes a text that [`encode`] wrote for `N` bytes. Any other text, also a number that is too large, is `None`.
#[must_use]
pub fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != length(N) {
        return None;
    }
    let mut bytes = [0_u8; N];
    for group in text.as_bytes().chunks(GROUP) {
        let (mut scale, mut carry) = (1, 0);
        for character in group {
            (scale, carry) = (scale * 62, carry * 62 + u64::from(value_of(*character)?));
        }
        for byte in bytes.iter_mut().rev() {
            let value = u64::from(*byte) * scale + carry;
            (*byte, carry) = (value.to_be_bytes()[7], value >> 8);
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
    fn tokens_are_written_as_they_always_were() {
        assert_eq!(encode(&[0, 0, 1, 0]), "000048");
        assert_eq!(encode(&[0xff; 4]), "4gfFC3");
        assert_eq!(encode(&[1, 0, 0, 0, 0, 0, 0, 0, 0]), "00LygHa16AHYG");
    }

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
