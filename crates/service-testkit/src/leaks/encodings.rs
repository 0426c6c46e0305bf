//! The encodings in which a secret may occur.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Shorter base64 texts would be found by chance.
const MIN_BASE64_LENGTH: usize = 8;

/// Returns base64 in both alphabets at all alignments: the characters that do not depend on what surrounds the secret.
pub(super) fn base64_anywhere(secret: &[u8]) -> Vec<String> {
    let mut parts = Vec::new();
    for bytes_before in 0..3 {
        let mut bytes = vec![0; bytes_before];
        bytes.extend_from_slice(secret);
        let (start, end) = ((bytes_before * 8).div_ceil(6), bytes.len() * 8 / 6);
        if end >= start + MIN_BASE64_LENGTH {
            for encoded in [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
                parts.push(encoded[start..end].to_owned());
            }
        }
    }
    parts.dedup();
    parts
}

/// Returns base64 of the secret alone, without padding.
pub(super) fn base64_alone(secret: &[u8]) -> String {
    STANDARD_NO_PAD.encode(secret)
}

pub(super) fn hex(secret: &[u8]) -> String {
    secret.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

/// Returns the secret as in a JSON string.
pub(super) fn json(secret: &str) -> String {
    let quoted = serde_json::Value::from(secret).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// A percent-decoded text that maps back to the original offsets.
pub(super) struct PercentDecoded {
    pub(super) bytes: Vec<u8>,
    /// The indexes of the decoded bytes in `bytes`.
    decoded_at: Vec<usize>,
}

impl PercentDecoded {
    /// Decodes a text; `None`: nothing in it is percent-encoded.
    pub(super) fn of(text: &[u8]) -> Option<Self> {
        let mut bytes = Vec::with_capacity(text.len());
        let mut decoded_at = Vec::new();
        let mut rest = text;
        while let [first, behind @ ..] = rest {
            rest = behind;
            if let Some((byte, behind)) = (*first == b'%').then(|| hex_byte(behind)).flatten() {
                decoded_at.push(bytes.len());
                bytes.push(byte);
                rest = behind;
            } else {
                bytes.push(*first);
            }
        }
        (!decoded_at.is_empty()).then_some(Self { bytes, decoded_at })
    }

    pub(super) fn original_offset(&self, offset: usize) -> usize {
        offset + 2 * self.decoded_at.partition_point(|decoded| *decoded < offset)
    }
}

fn hex_byte(text: &[u8]) -> Option<(u8, &[u8])> {
    let [high, low, rest @ ..] = text else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some((digit(*high)? * 16 + digit(*low)?, rest))
}
