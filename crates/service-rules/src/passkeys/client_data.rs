//! The client data: what the browser says about the page that called the authenticator.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::Value;

use super::{CHALLENGE_BYTES, PasskeyError};
use crate::json;

/// Bytes of the longest client data. Browsers write about 150, and the origin.
const MAX_BYTES: usize = 2_048;

/// What a page asked the authenticator for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ceremony {
    /// `webauthn.create`: a new passkey.
    Registration,
    /// `webauthn.get`: a signature by an existing one.
    Assertion,
}

/// The members of the client data that decide. Others are allowed, as the standard requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientData {
    /// `None`: a type that is not of passkeys.
    pub ceremony: Option<Ceremony>,
    pub challenge: [u8; CHALLENGE_BYTES],
    pub origin: String,
    /// The page was in a frame, and a page around it has another origin.
    pub is_cross_origin: bool,
}

impl ClientData {
    /// Reads client data.
    ///
    /// # Errors
    /// [`PasskeyError::ClientData`] if it is too long, is not strict JSON, or lacks a member; [`PasskeyError::Challenge`] if
    /// its challenge has another form than those of the service.
    pub fn read(text: &[u8]) -> Result<Self, PasskeyError> {
        if text.len() > MAX_BYTES {
            return Err(PasskeyError::ClientData);
        }
        let value = json::read(text).map_err(|_| PasskeyError::ClientData)?;
        let member = |name: &str| value.get(name).and_then(Value::as_str).ok_or(PasskeyError::ClientData);
        let ceremony = match member("type")? {
            "webauthn.create" => Some(Ceremony::Registration),
            "webauthn.get" => Some(Ceremony::Assertion),
            _ => None,
        };
        let challenge = BASE64_URL_SAFE_NO_PAD.decode(member("challenge")?).map_err(|_| PasskeyError::Challenge)?;
        Ok(Self {
            ceremony,
            challenge: challenge.try_into().map_err(|_| PasskeyError::Challenge)?,
            origin: member("origin")?.to_owned(),
            is_cross_origin: is_cross_origin(&value)?,
        })
    }
}

/// Whether the browser names a page of another origin around this one. Only `false` and no statement mean that there is none.
fn is_cross_origin(value: &Value) -> Result<bool, PasskeyError> {
    let stated = match value.get("crossOrigin") {
        None => false,
        Some(Value::Bool(stated)) => *stated,
        Some(_) => return Err(PasskeyError::ClientData),
    };
    Ok(stated || value.get("topOrigin").is_some())
}
