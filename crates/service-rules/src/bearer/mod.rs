//! Whether a bearer token authorizes a request (RFC 6750, 7519, 8725, 9068).
//!
//! 1. [`token_in`] finds the one token among the `Authorization` headers.
//! 2. [`UnverifiedJwt::read`] parses it, and rejects every spelling but the one this service writes.
//! 3. The server checks the signature with the key that [`UnverifiedJwt::key_id`] names.
//! 4. [`Claims::read`] reads the claims, and [`judge`] decides. Only this last step depends on the time or on the
//!    endpoint, so only it is repeated for a token that was verified before.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use service_api::{
    Timestamp,
    errors::Reason,
    ids::{AccessTokenId, ConnectionId, GrantId, UserId, WorkspaceId},
    scope::{Scope, Scopes},
};

use crate::{json, lifetimes, resources::Resource, step_up::StepUp};

/// Bytes of the longest token that is parsed.
const MAX_TOKEN_BYTES: usize = 8 * 1024;
/// Characters of a key id: an RFC 7638 thumbprint.
const KEY_ID_LENGTH: usize = 43;
/// The group order of P-256.
const P256_ORDER: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xbc, 0xe6, 0xfa,
    0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
];
/// Half of the group order of P-256. A signature with a larger `s` has a twin with a smaller one; this service writes and
/// accepts only the smaller.
const P256_HALF_ORDER: [u8; 32] = [
    0x7f, 0xff, 0xff, 0xff, 0x80, 0x00, 0x00, 0x00, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xde, 0x73, 0x7d,
    0x56, 0xd3, 0x8b, 0xcf, 0x42, 0x79, 0xdc, 0xe5, 0x61, 0x7e, 0x31, 0x92, 0xa8,
];

/// Why a bearer token does not authorize a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BearerError {
    #[error("the request has no bearer token")]
    Missing,
    /// The `Authorization` header does not hold exactly one token.
    #[error("the Authorization header is malformed")]
    Malformed,
    /// This service did not issue the token.
    #[error("the token is invalid")]
    Invalid,
    /// This service issued the token for another of its resources.
    #[error("the token is for another resource")]
    WrongAudience,
    #[error("the token has expired")]
    Expired,
    /// The token was valid, and no longer is; its holder is told why.
    #[error("the token was revoked: {}", .0.as_str())]
    Revoked(Reason),
    /// The token works again when its user has signed in through this connection.
    #[error("the user has to sign in through a connection again")]
    SsoAgain(Option<ConnectionId>),
    #[error("the token lacks the scope {}", .0.narrowest())]
    InsufficientScope(Scope),
    /// The user signed in too long ago for this action, or only by a code.
    #[error("the sign-in is too old")]
    SignInTooOld(StepUp),
}

/// The claims of an access token, in the order in which they are written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    pub iss: String,
    pub sub: UserId,
    pub aud: String,
    pub exp: i64,
    pub iat: i64,
    pub jti: AccessTokenId,
    pub client_id: String,
    pub scope: String,
    pub grant: GrantId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbf: Option<i64>,
}

/// Finds the one token in the `Authorization` headers of a request. `None`: there is none.
///
/// # Errors
/// [`BearerError::Malformed`] if there are several headers or a token has characters that tokens cannot have.
pub fn token_in<'a>(mut headers: impl Iterator<Item = &'a [u8]>) -> Result<Option<&'a str>, BearerError> {
    let Some(header) = headers.next() else { return Ok(None) };
    if headers.next().is_some() {
        return Err(BearerError::Malformed);
    }
    let header = std::str::from_utf8(header).map_err(|_| BearerError::Malformed)?;
    let (scheme, token) = header.split_once(' ').unwrap_or((header, ""));
    let token = token.trim_matches(' ');
    if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() {
        return Ok(None);
    }
    // Two tokens in one header cannot hide in this alphabet.
    let is_token = token.bytes().fold(true, |known, byte| known & IN_TOKENS[usize::from(byte)]);
    if is_token { Ok(Some(token)) } else { Err(BearerError::Malformed) }
}

/// The bytes of bearer tokens (RFC 6750 section 2.1). A table, because every byte of every request's token is checked.
const IN_TOKENS: [bool; 256] = {
    let mut known = [false; 256];
    let mut rest: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=";
    while let [byte, others @ ..] = rest {
        known[*byte as usize] = true;
        rest = others;
    }
    known
};

/// A JWT that has the form of this service's access tokens. Its signature has not been checked.
pub struct UnverifiedJwt<'a> {
    /// Header and payload, as they were signed.
    pub message: &'a str,
    pub signature: &'a str,
    key_id: String,
    payload: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    alg: String,
    kid: String,
    typ: String,
}

impl<'a> UnverifiedJwt<'a> {
    /// Parses a token. A token has one spelling: canonical base64url, a header of exactly three fields, the smaller `s`.
    ///
    /// # Errors
    /// [`BearerError::Invalid`] for every other text.
    pub fn read(text: &'a str) -> Result<Self, BearerError> {
        Self::parse(text).ok_or(BearerError::Invalid)
    }

    fn parse(text: &'a str) -> Option<Self> {
        if text.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let (message, signature) = text.rsplit_once('.')?;
        let (header, payload) = message.split_once('.')?;
        let header: Header = serde_json::from_value(json::read(&decode(header)?).ok()?).ok()?;
        let known_form = header.alg == "ES256" && header.typ == "at+jwt" && is_key_id(&header.kid);
        let canonical = is_low(&decode(signature)?);
        (known_form && canonical).then_some(())?;
        Some(Self { message, signature, key_id: header.kid, payload: decode(payload)? })
    }

    #[must_use]
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }
}

/// Whether an ES256 signature (`r` and `s`, 32 bytes each) is the canonical one of its pair.
#[must_use]
pub fn is_low(signature: &[u8]) -> bool {
    signature.len() == 64 && signature[32..] <= P256_HALF_ORDER[..]
}

/// Of an ES256 signature and its twin, which has `order - s` for `s`, the canonical one.
#[must_use]
pub fn lowered(mut signature: [u8; 64]) -> [u8; 64] {
    if is_low(&signature) {
        return signature;
    }
    let mut borrow = false;
    for (digit, whole) in signature[32..].iter_mut().zip(P256_ORDER).rev() {
        let (less, first) = whole.overflowing_sub(*digit);
        let (less, second) = less.overflowing_sub(u8::from(borrow));
        (*digit, borrow) = (less, first || second);
    }
    signature
}

impl Claims {
    /// Reads the claims from a payload whose signature has been checked.
    ///
    /// # Errors
    /// [`BearerError::Invalid`] if a claim is missing or malformed.
    pub fn read(payload: &[u8]) -> Result<Self, BearerError> {
        let value = json::read(payload).map_err(|_| BearerError::Invalid)?;
        let claims: Self = serde_json::from_value(value).map_err(|_| BearerError::Invalid)?;
        let complete = !claims.client_id.is_empty() && claims.exp > 0 && claims.iat > 0;
        if complete { Ok(claims) } else { Err(BearerError::Invalid) }
    }

    /// Whether the token has expired, allowing for clocks that differ.
    #[must_use]
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.exp.saturating_add(lifetimes::CLOCK_SKEW) < now.as_second()
    }

    #[must_use]
    pub fn scopes(&self) -> Scopes {
        Scopes::parse(&self.scope)
    }
}

/// Decides whether a token with these claims is accepted for `audience` now. Which endpoints it authorizes depends on its
/// scopes.
///
/// # Errors
/// Why the token is not accepted.
pub fn judge(claims: &Claims, issuer: &str, audience: &str, now: Timestamp) -> Result<(), BearerError> {
    judge_origin(claims, issuer, audience, now)?;
    if claims.has_expired(now) { Err(BearerError::Expired) } else { Ok(()) }
}

/// Decides whether a token with these claims was issued by `issuer` for `audience`, even if it has expired.
///
/// Only for the endpoint where an access token does no more than name the grant that it belongs to.
///
/// # Errors
/// [`BearerError::WrongAudience`] or [`BearerError::Invalid`].
pub fn judge_origin(claims: &Claims, issuer: &str, audience: &str, now: Timestamp) -> Result<(), BearerError> {
    let begun = |second: i64| second <= now.as_second() + lifetimes::CLOCK_SKEW;
    let lives_too_long = claims.exp.saturating_sub(claims.iat) > lifetimes::LONGEST_ACCESS_TOKEN;
    if claims.iss != issuer || lives_too_long || !begun(claims.iat) || !claims.nbf.is_none_or(begun) {
        return Err(BearerError::Invalid);
    }
    if claims.aud == audience {
        return Ok(());
    }
    let served = [Resource::Api, Resource::Mcp].into_iter().any(|resource| claims.aud == resource.audience(issuer));
    Err(if served { BearerError::WrongAudience } else { BearerError::Invalid })
}

/// Strict base64url: no padding, no other alphabet, no bits left over.
fn decode(segment: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(segment).ok()
}

fn is_key_id(text: &str) -> bool {
    text.len() == KEY_ID_LENGTH && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

#[cfg(test)]
mod tests;
