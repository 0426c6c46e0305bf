//! Authenticator data: whatever is accepted was read to its last byte, and its key has one form only.
#![no_main]

use libfuzzer_sys::fuzz_target;
use service_rules::passkeys::{AuthenticatorData, PublicKey};

const HAS_CREDENTIAL: u8 = 0b0100_0000;
const HAS_EXTENSIONS: u8 = 0b1000_0000;

fuzz_target!(|bytes: &[u8]| {
    let Ok(read) = AuthenticatorData::read(bytes) else { return };
    assert_eq!(read.relying_party, &bytes[..32]);
    assert_eq!(read.counter.to_be_bytes(), bytes[33..37]);
    let flags = bytes[32];
    assert_eq!(read.credential.is_some(), flags & HAS_CREDENTIAL != 0);
    let mut length = 37;
    if let Some(credential) = read.credential {
        assert!((1..=1_023).contains(&credential.id.len()));
        assert_eq!(usize::from(u16::from_be_bytes([bytes[53], bytes[54]])), credential.id.len());
        length += 18 + credential.id.len() + credential.public_key.len();
        if let Ok(PublicKey::Rs256(modulus)) = PublicKey::read(credential.public_key) {
            assert!((256..=512).contains(&modulus.len()) && modulus[0] >= 0x80);
        }
    }
    // Without the flag of extensions nothing follows, and with it something does.
    assert_eq!(length == bytes.len(), flags & HAS_EXTENSIONS == 0);
    assert!(length <= bytes.len());
});
