//! Key sets of issuers (RFC 7517), and the verification of what they sign.
//!
//! The type of a key decides which algorithms it can be used with, whatever a token says. Symmetric keys are never used, so
//! a public key cannot be taken for a shared secret.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, DecodingKey, crypto};
use serde_json::{Map, Value};
use service_rules::json;

use crate::issuers::{
    VerifiedClaims,
    error::{IssuerError, ProviderRequest},
};

/// The algorithms that an issuer can be allowed.
pub const SUPPORTED_ALGORITHMS: [&str; 5] = ["RS256", "PS256", "ES256", "ES384", "EdDSA"];

/// Keys of a set at most. A larger set is refused.
const MAX_KEYS: usize = 100;
/// Bytes of an RSA modulus: 2048 to 4096 bits.
const RSA_MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=512;
const MAX_RSA_EXPONENT_BYTES: usize = 8;
const MAX_KEY_ID_BYTES: usize = 256;
/// Bytes of the longest token. Tokens of large companies list many groups.
const MAX_TOKEN_BYTES: usize = 48 * 1_024;

/// The usable keys of an issuer.
pub(super) struct KeySet {
    keys: Vec<IssuerKey>,
}

struct IssuerKey {
    id: Option<String>,
    /// The algorithms that the key can be used with.
    algorithms: Vec<Algorithm>,
    public: DecodingKey,
}

/// Whether a key set proves a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignatureVerdict {
    Genuine,
    Forged,
    /// The key of the token is not in the set; it may be in a newer one.
    UnknownKey,
}

impl KeySet {
    /// Reads a key set that was fetched.
    pub(super) fn read(body: &[u8]) -> Result<Self, IssuerError> {
        let not_json = IssuerError::InvalidResponse { request: ProviderRequest::Keys, problem: "it is not JSON" };
        Self::from_value(&json::read(body).map_err(|_| not_json)?)
    }

    /// Reads a key set. Keys that cannot be used for signatures are left out.
    pub(super) fn from_value(set: &Value) -> Result<Self, IssuerError> {
        let invalid = |problem| IssuerError::InvalidResponse { request: ProviderRequest::Keys, problem };
        let keys = set.get("keys").and_then(Value::as_array).ok_or(invalid("it has no list of keys"))?;
        if keys.len() > MAX_KEYS {
            return Err(invalid("it has more than 100 keys"));
        }
        let keys: Vec<_> = keys.iter().filter_map(Value::as_object).filter_map(IssuerKey::read).collect();
        if keys.is_empty() { Err(IssuerError::NoUsableKeys) } else { Ok(Self { keys }) }
    }

    /// Verifies the signature of a token whose algorithm is allowed.
    pub(super) fn verify(&self, jwt: &ProviderJwt<'_>) -> SignatureVerdict {
        let is_named = |key: &&IssuerKey| match (&jwt.key_id, &key.id) {
            (Some(wanted), Some(id)) => wanted == id,
            // A single key need not have an id.
            (Some(_), None) => self.keys.len() == 1,
            (None, _) => key.algorithms.contains(&jwt.algorithm),
        };
        let named: Vec<_> = self.keys.iter().filter(is_named).collect();
        if named.is_empty() || jwt.key_id.is_none() && named.len() > 1 {
            return SignatureVerdict::UnknownKey;
        }
        let genuine = named.iter().filter(|key| key.algorithms.contains(&jwt.algorithm)).any(|key| {
            let verified = crypto::verify(jwt.signature, jwt.message.as_bytes(), &key.public, jwt.algorithm);
            verified.unwrap_or(false)
        });
        let has_id = named.iter().all(|key| key.id.is_some()) && jwt.key_id.is_some();
        match genuine {
            true => SignatureVerdict::Genuine,
            false if has_id => SignatureVerdict::Forged,
            // Without ids, a key that was replaced looks like a wrong signature.
            false => SignatureVerdict::UnknownKey,
        }
    }
}

impl IssuerKey {
    /// Reads a public key for signatures. `None`: it is of another kind, too weak, or for another purpose.
    fn read(jwk: &Map<String, Value>) -> Option<Self> {
        let text = |name| jwk.get(name).and_then(Value::as_str);
        let is_for_signatures = text("use").is_none_or(|purpose| purpose == "sig")
            && jwk.get("key_ops").is_none_or(|operations| {
                operations.as_array().is_some_and(|known| known.iter().any(|operation| operation == "verify"))
            });
        // A set with a private key was published by mistake; anyone can sign with that key.
        if !is_for_signatures || jwk.contains_key("d") {
            return None;
        }
        let bytes = |name| BASE64_URL_SAFE_NO_PAD.decode(text(name)?).ok();
        let (mut algorithms, public) = match (text("kty")?, text("crv")) {
            ("RSA", _) => {
                let (modulus, exponent) = (bytes("n")?, bytes("e")?);
                let is_strong = RSA_MODULUS_BYTES.contains(&modulus.len()) && modulus[0] & 0x80 != 0;
                (is_strong && exponent.len() <= MAX_RSA_EXPONENT_BYTES).then_some(())?;
                let public = DecodingKey::from_rsa_raw_components(&modulus, &exponent);
                (vec![Algorithm::RS256, Algorithm::PS256], public)
            }
            ("EC", Some("P-256")) if bytes("x")?.len() == 32 && bytes("y")?.len() == 32 => {
                (vec![Algorithm::ES256], DecodingKey::from_ec_components(text("x")?, text("y")?).ok()?)
            }
            ("EC", Some("P-384")) if bytes("x")?.len() == 48 && bytes("y")?.len() == 48 => {
                (vec![Algorithm::ES384], DecodingKey::from_ec_components(text("x")?, text("y")?).ok()?)
            }
            ("OKP", Some("Ed25519")) if bytes("x")?.len() == 32 => {
                (vec![Algorithm::EdDSA], DecodingKey::from_ed_components(text("x")?).ok()?)
            }
            _ => return None,
        };
        if let Some(only) = text("alg") {
            algorithms.retain(|algorithm| only.parse() == Ok(*algorithm));
        }
        let id = text("kid").filter(|id| id.len() <= MAX_KEY_ID_BYTES).map(str::to_owned);
        (!algorithms.is_empty()).then_some(Self { id, algorithms, public })
    }
}

/// Checks that a pasted key set can be used.
pub fn check_pasted_keys(set: &Value) -> Result<(), IssuerError> {
    KeySet::from_value(set).map(drop)
}

/// A JWT of an issuer. Its signature has not been verified.
pub(super) struct ProviderJwt<'a> {
    message: &'a str,
    signature: &'a str,
    algorithm: Algorithm,
    key_id: Option<String>,
    typ: Option<String>,
    payload: Vec<u8>,
}

impl<'a> ProviderJwt<'a> {
    /// Parses a token whose algorithm must be one of these.
    pub(super) fn read(text: &'a str, allowed: &[String]) -> Result<Self, IssuerError> {
        let parts = Self::parse(text).ok_or(IssuerError::MalformedToken)?;
        let header = &parts.header;
        let name = header.get("alg").and_then(Value::as_str).ok_or(IssuerError::MalformedToken)?;
        let is_allowed = SUPPORTED_ALGORITHMS.contains(&name) && allowed.iter().any(|known| known == name);
        let algorithm = name.parse().ok().filter(|_| is_allowed).ok_or(IssuerError::Algorithm)?;
        // An extension that must be understood is not: RFC 7515 section 4.1.11.
        if header.contains_key("crit") {
            return Err(IssuerError::MalformedToken);
        }
        let text = |name| match header.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(IssuerError::MalformedToken),
        };
        let typ = text("typ")?.map(|typ| typ.strip_prefix("application/").map(str::to_owned).unwrap_or(typ));
        Ok(Self {
            message: parts.message,
            signature: parts.signature,
            algorithm,
            key_id: text("kid")?,
            typ,
            payload: parts.payload,
        })
    }

    fn parse(text: &'a str) -> Option<JwtParts<'a>> {
        if text.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let decode = |segment| BASE64_URL_SAFE_NO_PAD.decode(segment).ok();
        let (message, signature) = text.rsplit_once('.')?;
        let (header, payload) = message.split_once('.')?;
        let Ok(Value::Object(header)) = json::read(&decode(header)?) else { return None };
        Some(JwtParts { message, signature, header, payload: decode(payload)? })
    }

    /// Returns the claims of a token whose signature has been verified.
    pub(super) fn into_claims(self) -> Result<VerifiedClaims, IssuerError> {
        match json::read(&self.payload) {
            Ok(Value::Object(claims)) => Ok(VerifiedClaims { typ: self.typ, claims }),
            _ => Err(IssuerError::MalformedToken),
        }
    }
}

struct JwtParts<'a> {
    message: &'a str,
    signature: &'a str,
    header: Map<String, Value>,
    payload: Vec<u8>,
}
