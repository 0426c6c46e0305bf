//! A forger's workshop: tokens with any header, payload and signature, also under the service's own key.
//!
//! Signing a wrong token with the right key leaves only what is wrong to refuse it for.

use anyhow::{Context as _, Result, anyhow};
use aws_lc_rs::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use service_rules::bearer;
use service_server::{crypto::random, store};
use service_testkit::server::{SignedIn, TestServer};

use crate::support::access::claims;

/// The order of P-256's group.
pub(crate) const ORDER: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xbc, 0xe6, 0xfa,
    0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
];

/// A key, and the id that its tokens name it by.
pub(crate) struct Forge {
    pub(crate) kid: String,
    pair: EcdsaKeyPair,
}

/// A JWT that is still to be signed.
#[derive(Clone)]
pub(crate) struct Draft {
    pub(crate) header: String,
    pub(crate) payload: String,
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

impl Forge {
    /// With the key that the service itself signs with, out of its vault.
    pub(crate) async fn of(server: &TestServer) -> Result<Self> {
        let keys = store::signing_keys::list(&server.app.database.connect().await?).await?;
        let key = keys.first().context("the service has no key")?;
        let private = server.app.root_keys.open(&format!("signing_keys.sealed/{}", key.kid), &key.sealed)?;
        Self::with(&key.kid, &private)
    }

    /// With a key that the service has never seen, under any id.
    pub(crate) fn stranger(kid: &str) -> Result<Self> {
        Self::with(kid, &random::signing_key()?)
    }

    fn with(kid: &str, private: &[u8]) -> Result<Self> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, private)?;
        Ok(Self { kid: kid.to_owned(), pair })
    }

    /// What the service would sign for this user.
    pub(crate) fn draft(&self, server: &TestServer, user: &SignedIn) -> Result<Draft> {
        let header = format!(r#"{{"alg":"ES256","kid":"{}","typ":"at+jwt"}}"#, self.kid);
        Ok(Draft { header, payload: serde_json::to_string(&claims(server, user.user_id, "read write")?)? })
    }

    pub(crate) fn sign(&self, draft: &Draft) -> Result<String> {
        Ok(draft.with_signature(&self.signature(draft)?))
    }

    /// `r` and `s`, the smaller of the two possible, as the service writes it.
    pub(crate) fn signature(&self, draft: &Draft) -> Result<Vec<u8>> {
        loop {
            let drawn = self.pair.sign(&SystemRandom::new(), draft.message().as_bytes());
            let signature = drawn.map_err(|_| anyhow!("could not sign"))?.as_ref().to_vec();
            if bearer::is_low(&signature) {
                return Ok(signature);
            }
        }
    }

    /// The public key as a point: `04`, then `x` and `y`.
    pub(crate) fn point(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }
}

impl Draft {
    pub(crate) fn message(&self) -> String {
        format!("{}.{}", encode(&self.header), encode(&self.payload))
    }

    pub(crate) fn with_signature(&self, signature: &[u8]) -> String {
        format!("{}.{}", self.message(), encode(signature))
    }

    pub(crate) fn with_hmac(&self, algorithm: hmac::Algorithm, key: &[u8]) -> String {
        let tag = hmac::sign(&hmac::Key::new(algorithm, key), self.message().as_bytes());
        self.with_signature(tag.as_ref())
    }

    pub(crate) fn with_header(&self, header: &str) -> Self {
        Self { header: header.to_owned(), ..self.clone() }
    }

    pub(crate) fn with_payload(&self, payload: &str) -> Self {
        Self { payload: payload.to_owned(), ..self.clone() }
    }

    /// With a part of the header replaced, which must be there.
    pub(crate) fn header_edit(&self, from: &str, to: &str) -> Result<Self> {
        Ok(self.with_header(&edit(&self.header, from, to)?))
    }

    /// With a part of the payload replaced, which must be there.
    pub(crate) fn payload_edit(&self, from: &str, to: &str) -> Result<Self> {
        Ok(self.with_payload(&edit(&self.payload, from, to)?))
    }
}

fn edit(text: &str, from: &str, to: &str) -> Result<String> {
    anyhow::ensure!(text.matches(from).count() == 1, "{from} is not there exactly once");
    Ok(text.replacen(from, to, 1))
}

/// `number` less than `from`, both big-endian: the `s` of a signature's twin.
pub(crate) fn subtract(from: &[u8; 32], number: &[u8]) -> [u8; 32] {
    let (mut difference, mut borrow) = ([0; 32], false);
    for place in (0..32).rev() {
        let (partial, first) = from[place].overflowing_sub(number[place]);
        let (digit, second) = partial.overflowing_sub(borrow.into());
        (difference[place], borrow) = (digit, first || second);
    }
    difference
}

/// The public half of a key, as clients publish theirs.
pub(crate) fn public_jwk(pkcs8: &[u8], kid: &str) -> Result<serde_json::Value> {
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8)?;
    let point = pair.public_key().as_ref();
    let (x, y) = (encode(&point[1..33]), encode(&point[33..65]));
    Ok(serde_json::json!({ "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": kid, "x": x, "y": y }))
}
