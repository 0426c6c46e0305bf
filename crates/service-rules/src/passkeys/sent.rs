//! What a browser sends after a ceremony: the JSON forms of Web Authentication, `RegistrationResponseJSON` and
//! `AuthenticationResponseJSON`. Members that decide nothing are not read.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::Value;

use super::{MAX_CREDENTIAL_ID_BYTES, MAX_SIGNATURE_BYTES, PasskeyError, SentRegistration, USER_HANDLE_BYTES};
use crate::json;

/// Bytes of the longest response. Its longest members have 4,096 and 2,048 bytes before base64, and it may repeat the first.
const MAX_BYTES: usize = 24_576;

/// A response that creates a passkey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrationResponse {
    client_data: Vec<u8>,
    authenticator_data: Vec<u8>,
}

impl RegistrationResponse {
    /// Reads a response. The attestation object is not read: it would only repeat the authenticator data, and a statement
    /// about the maker of the authenticator.
    ///
    /// # Errors
    /// [`PasskeyError::Response`].
    pub fn read(text: &[u8]) -> Result<Self, PasskeyError> {
        let response = Response::read(text)?;
        Ok(Self {
            client_data: response.bytes("clientDataJSON")?,
            authenticator_data: response.bytes("authenticatorData")?,
        })
    }

    #[must_use]
    pub fn sent(&self) -> SentRegistration<'_> {
        SentRegistration { client_data: &self.client_data, authenticator_data: &self.authenticator_data }
    }
}

/// A response that signs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssertionResponse {
    pub credential_id: Vec<u8>,
    pub client_data: Vec<u8>,
    pub authenticator_data: Vec<u8>,
    pub signature: Vec<u8>,
    pub user_handle: Option<Vec<u8>>,
}

impl AssertionResponse {
    /// Reads a response.
    ///
    /// # Errors
    /// [`PasskeyError::Response`].
    pub fn read(text: &[u8]) -> Result<Self, PasskeyError> {
        let response = Response::read(text)?;
        let read = Self {
            credential_id: bytes(response.0.get("id"))?,
            client_data: response.bytes("clientDataJSON")?,
            authenticator_data: response.bytes("authenticatorData")?,
            signature: response.bytes("signature")?,
            user_handle: response.optional("userHandle")?,
        };
        let fits = read.credential_id.len() <= MAX_CREDENTIAL_ID_BYTES
            && read.signature.len() <= MAX_SIGNATURE_BYTES
            && read.user_handle.as_ref().is_none_or(|handle| handle.len() <= USER_HANDLE_BYTES);
        if fits { Ok(read) } else { Err(PasskeyError::Response) }
    }
}

struct Response(Value);

impl Response {
    fn read(text: &[u8]) -> Result<Self, PasskeyError> {
        if text.len() > MAX_BYTES {
            return Err(PasskeyError::Response);
        }
        json::read(text).map(Self).map_err(|_| PasskeyError::Response)
    }

    fn member(&self, name: &str) -> Option<&Value> {
        self.0.get("response")?.get(name)
    }

    fn bytes(&self, name: &str) -> Result<Vec<u8>, PasskeyError> {
        bytes(self.member(name))
    }

    fn optional(&self, name: &str) -> Result<Option<Vec<u8>>, PasskeyError> {
        match self.member(name) {
            None | Some(Value::Null) => Ok(None),
            present => bytes(present).map(Some),
        }
    }
}

fn bytes(member: Option<&Value>) -> Result<Vec<u8>, PasskeyError> {
    let text = member.and_then(Value::as_str).ok_or(PasskeyError::Response)?;
    BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| PasskeyError::Response)
}
