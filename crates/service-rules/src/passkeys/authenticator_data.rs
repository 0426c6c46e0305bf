//! The authenticator data: what the authenticator says about itself and its user (Web Authentication, section 6.1).
//!
//! ```text
//! relying party  SHA-256 of its id            32 bytes
//! flags                                        1
//! counter        of signatures, big-endian     4
//! credential     if its flag is set: the model of authenticator (16), the length of the id (2), the id, the public key (CBOR)
//! extensions     if their flag is set: a map (CBOR)
//! ```

use coset::cbor::{Value, de};

use super::{MAX_CREDENTIAL_ID_BYTES, PasskeyError};

/// Bytes of the longest authenticator data: a credential with the longest id, the largest key and some extensions.
const MAX_BYTES: usize = 4_096;
/// The deepest nesting of CBOR that is read. A public key is a map of numbers and bytes.
const MAX_DEPTH: usize = 8;

const USER_PRESENT: u8 = 0b0000_0001;
const USER_VERIFIED: u8 = 0b0000_0100;
const CAN_BE_BACKED_UP: u8 = 0b0000_1000;
const IS_BACKED_UP: u8 = 0b0001_0000;
const HAS_CREDENTIAL: u8 = 0b0100_0000;
const HAS_EXTENSIONS: u8 = 0b1000_0000;

/// Authenticator data that was read to its last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the standard")]
pub struct AuthenticatorData<'a> {
    /// The SHA-256 of the relying party's id.
    pub relying_party: &'a [u8],
    /// The user touched the authenticator, or did what it takes for that.
    pub user_present: bool,
    /// The authenticator knows who the user is: by PIN, finger or face.
    pub user_verified: bool,
    /// The passkey can be synchronized to other devices. This never changes.
    pub can_be_backed_up: bool,
    pub is_backed_up: bool,
    pub counter: u32,
    /// The new credential, in a registration.
    pub credential: Option<AttestedCredential<'a>>,
}

/// A credential that an authenticator has created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttestedCredential<'a> {
    pub id: &'a [u8],
    /// The COSE key.
    pub public_key: &'a [u8],
}

impl<'a> AuthenticatorData<'a> {
    /// Reads authenticator data.
    ///
    /// # Errors
    /// [`PasskeyError::AuthenticatorData`] if it is too long, too short, or has other bytes than its flags say.
    pub fn read(bytes: &'a [u8]) -> Result<Self, PasskeyError> {
        if bytes.len() > MAX_BYTES {
            return Err(PasskeyError::AuthenticatorData);
        }
        let mut rest = bytes;
        let relying_party = take(&mut rest, 32)?;
        let [flags] = take_array(&mut rest)?;
        let has = |flag: u8| flags & flag != 0;
        let counter = u32::from_be_bytes(take_array(&mut rest)?);
        let credential = if has(HAS_CREDENTIAL) { Some(take_credential(&mut rest)?) } else { None };
        if has(HAS_EXTENSIONS) {
            take_map(&mut rest)?;
        }
        if !rest.is_empty() {
            return Err(PasskeyError::AuthenticatorData);
        }
        Ok(Self {
            relying_party,
            user_present: has(USER_PRESENT),
            user_verified: has(USER_VERIFIED),
            can_be_backed_up: has(CAN_BE_BACKED_UP),
            is_backed_up: has(IS_BACKED_UP),
            counter,
            credential,
        })
    }
}

fn take_credential<'a>(rest: &mut &'a [u8]) -> Result<AttestedCredential<'a>, PasskeyError> {
    // The model of authenticator. The service does not need it.
    take(rest, 16)?;
    let length = usize::from(u16::from_be_bytes(take_array(rest)?));
    if length == 0 || length > MAX_CREDENTIAL_ID_BYTES {
        return Err(PasskeyError::AuthenticatorData);
    }
    Ok(AttestedCredential { id: take(rest, length)?, public_key: take_map(rest)? })
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], PasskeyError> {
    let (taken, left) = rest.split_at_checked(length).ok_or(PasskeyError::AuthenticatorData)?;
    *rest = left;
    Ok(taken)
}

fn take_array<const LENGTH: usize>(rest: &mut &[u8]) -> Result<[u8; LENGTH], PasskeyError> {
    let (taken, left) = rest.split_first_chunk().ok_or(PasskeyError::AuthenticatorData)?;
    *rest = left;
    Ok(*taken)
}

/// Takes one CBOR map, and returns its bytes.
fn take_map<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], PasskeyError> {
    let mut left = *rest;
    let value: Value =
        de::from_reader_with_recursion_limit(&mut left, MAX_DEPTH).map_err(|_| PasskeyError::AuthenticatorData)?;
    if !value.is_map() {
        return Err(PasskeyError::AuthenticatorData);
    }
    take(rest, rest.len() - left.len())
}
