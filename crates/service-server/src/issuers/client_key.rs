//! The key with which this service authenticates at one provider (`private_key_jwt`, RFC 7523).
//!
//! Every connection has a key of its own. It is never one of the signing keys of access tokens.

use std::fmt;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jsonwebtoken::{
    Algorithm, EncodingKey,
    jwk::{Jwk, PublicKeyUse, ThumbprintHash},
};
use serde_json::{Value, json};
use service_rules::Timestamp;
use zeroize::Zeroizing;

use crate::crypto::random;

/// Lifetime of a client assertion, in seconds.
const ASSERTION_LIFETIME: i64 = 60;

/// A P-256 key pair of a client. It is never printed.
pub struct ClientKey {
    pkcs8: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientKey(…)")
    }
}

impl ClientKey {
    /// Generates a key.
    pub fn generate() -> anyhow::Result<Self> {
        Ok(Self { pkcs8: random::signing_key()? })
    }

    /// Reads a key that [`ClientKey::to_pkcs8`] has written.
    pub fn from_pkcs8(pkcs8: Zeroizing<Vec<u8>>) -> anyhow::Result<Self> {
        let key = Self { pkcs8 };
        key.pair().map(|_| key)
    }

    /// The private key, to be sealed.
    #[must_use]
    pub fn to_pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    /// The public key, which the owner gives to the provider. Its id is its thumbprint (RFC 7638).
    pub fn public_jwk(&self) -> anyhow::Result<Value> {
        let mut jwk = Jwk::from_encoding_key(&EncodingKey::from_ec_der(&self.pkcs8), Algorithm::ES256)?;
        jwk.common.key_id = Some(jwk.thumbprint(ThumbprintHash::SHA256)?);
        jwk.common.public_key_use = Some(PublicKeyUse::Signature);
        Ok(serde_json::to_value(&jwk)?)
    }

    /// Signs an assertion that this client sends a request to this endpoint.
    pub(super) fn assertion(
        &self,
        client_id: &str,
        audience: &str,
        now: Timestamp,
    ) -> anyhow::Result<Zeroizing<String>> {
        let header = json!({ "alg": "ES256", "typ": "JWT", "kid": self.public_jwk()?["kid"] });
        let claims = json!({
            "iss": client_id,
            "sub": client_id,
            "aud": audience,
            "jti": random::uuid(now)?.to_string(),
            "iat": now.as_second(),
            "exp": now.as_second() + ASSERTION_LIFETIME,
        });
        let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", encode(&header), encode(&claims));
        let signature = BASE64_URL_SAFE_NO_PAD.encode(random::signature(&self.pair()?, message.as_bytes())?);
        Ok(Zeroizing::new(format!("{message}.{signature}")))
    }

    fn pair(&self) -> anyhow::Result<EcdsaKeyPair> {
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &self.pkcs8)
            .map_err(|_| anyhow::anyhow!("the key of a client cannot be read"))
    }
}
