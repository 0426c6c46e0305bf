//! Passkeys: whether what an authenticator sent creates a passkey, or signs a user in (Web Authentication, Level 3).
//!
//! An authenticator signs two things: its own data ([`AuthenticatorData`]), and the hash of what the browser says about the
//! page ([`ClientData`]). The page cannot change either. So a page on another host gets a signature that names the other
//! host, and [`judge_assertion`] refuses it: a passkey cannot be phished.
//!
//! The server gives random challenges, verifies the signature with the stored [`PublicKey`], and passes the result as a
//! fact. Attestation is not requested: what an authenticator says about its maker is not read.

mod authenticator_data;
mod client_data;
mod public_key;
mod sent;
#[cfg(test)]
mod tests;

use subtle::ConstantTimeEq as _;

pub use self::{
    authenticator_data::{AttestedCredential, AuthenticatorData},
    client_data::{Ceremony, ClientData},
    public_key::PublicKey,
    sent::{AssertionResponse, RegistrationResponse},
};

/// Bytes of a challenge.
pub const CHALLENGE_BYTES: usize = 32;
/// Bytes of a user handle: random, so that it does not tell who the user is.
pub const USER_HANDLE_BYTES: usize = 32;
/// Bytes of the longest credential id (Web Authentication, section 5.8.3).
pub const MAX_CREDENTIAL_ID_BYTES: usize = 1_023;
/// Bytes of the longest signature: RSA with a modulus of 4,096 bits.
pub const MAX_SIGNATURE_BYTES: usize = 512;
/// Passkeys of a user at most.
pub const MAX_PASSKEYS: usize = 20;

/// Why what an authenticator sent is refused. Users are told only that the passkey was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasskeyError {
    #[error("the response cannot be read")]
    Response,
    #[error("the client data cannot be read")]
    ClientData,
    #[error("the client data is of another ceremony")]
    Type,
    #[error("the challenge is not the one that was given")]
    Challenge,
    #[error("the page has another origin")]
    Origin,
    #[error("the page was in a frame of another origin")]
    CrossOrigin,
    #[error("the authenticator data cannot be read")]
    AuthenticatorData,
    #[error("the passkey is of another relying party")]
    RelyingParty,
    #[error("no user was present")]
    NotPresent,
    #[error("the authenticator did not verify its user")]
    NotVerified,
    #[error("the backup flags contradict one another, or what the passkey said when it was created")]
    BackupFlags,
    #[error("the public key is not one that is accepted")]
    PublicKey,
    #[error("the signature is wrong")]
    Signature,
    #[error("the passkey is of another user")]
    UserHandle,
}

/// What both ceremonies must say.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// The challenge that this browser was given for this ceremony.
    pub challenge: &'a [u8; CHALLENGE_BYTES],
    /// The origin of the service's pages.
    pub origin: &'a str,
    /// The SHA-256 of the relying party's id, which is the host of the service's pages.
    pub relying_party: &'a [u8; 32],
}

/// What was sent to create a passkey.
#[derive(Clone, Copy, Debug)]
pub struct SentRegistration<'a> {
    pub client_data: &'a [u8],
    pub authenticator_data: &'a [u8],
}

/// A passkey to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPasskey {
    pub credential_id: Vec<u8>,
    /// The COSE key, as the authenticator wrote it. [`PublicKey::read`] accepts it.
    pub public_key: Vec<u8>,
    pub counter: u32,
    pub can_be_backed_up: bool,
    pub is_backed_up: bool,
}

/// Whether a new passkey can be stored.
///
/// # Errors
/// [`PasskeyError`].
pub fn judge_registration(sent: SentRegistration<'_>, expected: Expected<'_>) -> Result<NewPasskey, PasskeyError> {
    check_client_data(sent.client_data, Ceremony::Registration, expected)?;
    let data = AuthenticatorData::read(sent.authenticator_data)?;
    check_authenticator_data(&data, expected)?;
    let credential = data.credential.ok_or(PasskeyError::AuthenticatorData)?;
    PublicKey::read(credential.public_key)?;
    Ok(NewPasskey {
        credential_id: credential.id.to_vec(),
        public_key: credential.public_key.to_vec(),
        counter: data.counter,
        can_be_backed_up: data.can_be_backed_up,
        is_backed_up: data.is_backed_up,
    })
}

/// What was sent to sign in by a passkey.
#[derive(Clone, Copy, Debug)]
pub struct SentAssertion<'a> {
    pub client_data: &'a [u8],
    pub authenticator_data: &'a [u8],
    /// Whose passkey the authenticator says it is.
    pub user_handle: Option<&'a [u8]>,
    /// Whether the stored public key verifies the signature over both.
    pub signature_verifies: bool,
}

/// What is stored of the passkey.
#[derive(Clone, Copy, Debug)]
pub struct StoredPasskey<'a> {
    pub user_handle: &'a [u8],
    pub counter: u32,
    pub can_be_backed_up: bool,
}

/// What an assertion means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssertionVerdict {
    /// The user signs in, and the passkey gets these values.
    SignIn {
        counter: u32,
        is_backed_up: bool,
    },
    /// The signature is right, but an authenticator counts up with every signature. So another one has the same key: it was
    /// copied. The server refuses, keeps the event and tells the user.
    CounterWentBack,
    Refuse(PasskeyError),
}

/// Whether a passkey signs its user in.
#[must_use]
pub fn judge_assertion(sent: SentAssertion<'_>, stored: StoredPasskey<'_>, expected: Expected<'_>) -> AssertionVerdict {
    match check_assertion(sent, stored, expected) {
        Err(error) => AssertionVerdict::Refuse(error),
        Ok(data) if !counts_up(stored.counter, data.counter) => AssertionVerdict::CounterWentBack,
        Ok(data) => AssertionVerdict::SignIn { counter: data.counter, is_backed_up: data.is_backed_up },
    }
}

fn check_assertion<'a>(
    sent: SentAssertion<'a>,
    stored: StoredPasskey<'_>,
    expected: Expected<'_>,
) -> Result<AuthenticatorData<'a>, PasskeyError> {
    check_client_data(sent.client_data, Ceremony::Assertion, expected)?;
    let data = AuthenticatorData::read(sent.authenticator_data)?;
    check_authenticator_data(&data, expected)?;
    if data.credential.is_some() {
        return Err(PasskeyError::AuthenticatorData);
    }
    if !sent.signature_verifies {
        return Err(PasskeyError::Signature);
    }
    if sent.user_handle != Some(stored.user_handle) {
        return Err(PasskeyError::UserHandle);
    }
    if data.can_be_backed_up != stored.can_be_backed_up {
        return Err(PasskeyError::BackupFlags);
    }
    Ok(data)
}

fn check_client_data(text: &[u8], ceremony: Ceremony, expected: Expected<'_>) -> Result<(), PasskeyError> {
    let data = ClientData::read(text)?;
    if data.ceremony != Some(ceremony) {
        Err(PasskeyError::Type)
    } else if !bool::from(data.challenge.ct_eq(expected.challenge)) {
        Err(PasskeyError::Challenge)
    } else if data.origin != expected.origin {
        Err(PasskeyError::Origin)
    } else if data.is_cross_origin {
        Err(PasskeyError::CrossOrigin)
    } else {
        Ok(())
    }
}

fn check_authenticator_data(data: &AuthenticatorData<'_>, expected: Expected<'_>) -> Result<(), PasskeyError> {
    if data.relying_party != expected.relying_party {
        Err(PasskeyError::RelyingParty)
    } else if !data.user_present {
        Err(PasskeyError::NotPresent)
    } else if !data.user_verified {
        Err(PasskeyError::NotVerified)
    } else if data.is_backed_up && !data.can_be_backed_up {
        Err(PasskeyError::BackupFlags)
    } else {
        Ok(())
    }
}

/// Whether a counter may follow the stored one. Authenticators that do not count, such as synchronized ones, always send 0.
const fn counts_up(stored: u32, sent: u32) -> bool {
    sent > stored || (sent == 0 && stored == 0)
}
