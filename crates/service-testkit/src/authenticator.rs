//! An authenticator of our own, whose every statement a test can change.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use aws_lc_rs::{
    digest::{SHA256, digest},
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use coset::{CborSerializable as _, CoseKeyBuilder, iana};
use serde_json::{Value, json};

use crate::settings::BASE_URL;

/// The flags of authenticator data.
pub const USER_PRESENT: u8 = 0x01;
pub const USER_VERIFIED: u8 = 0x04;
pub const CAN_BE_BACKED_UP: u8 = 0x08;
pub const IS_BACKED_UP: u8 = 0x10;
const HAS_CREDENTIAL: u8 = 0x40;

/// A passkey and the device that holds it. A clone has the same key: it is a copy of the passkey.
#[derive(Clone)]
pub struct TestAuthenticator {
    pub key: Arc<EcdsaKeyPair>,
    pub credential_id: Vec<u8>,
    /// Set by the registration.
    pub user_handle: Option<Vec<u8>>,
    /// The number of signatures so far; `None`: it always says 0, as synchronized passkeys do.
    pub counter: Option<u32>,
    pub flags: u8,
    /// What the browser says about the page.
    pub origin: String,
    pub cross_origin: bool,
    /// The relying party that is signed; `None`: the one that the page asks for.
    pub relying_party: Option<String>,
}

impl TestAuthenticator {
    /// A device that counts its signatures, and keeps its passkey to itself.
    pub fn new() -> Result<Self> {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING)?;
        let credential_id = sha256(key.public_key().as_ref());
        Ok(Self {
            key: Arc::new(key),
            credential_id,
            user_handle: None,
            counter: Some(0),
            flags: USER_PRESENT | USER_VERIFIED,
            origin: BASE_URL.to_owned(),
            cross_origin: false,
            relying_party: None,
        })
    }

    /// A password manager, which synchronizes its passkeys and does not count.
    pub fn synchronized() -> Result<Self> {
        let flags = USER_PRESENT | USER_VERIFIED | CAN_BE_BACKED_UP | IS_BACKED_UP;
        Ok(Self { counter: None, flags, ..Self::new()? })
    }

    /// Creates the passkey that a page asks for, as the script of the page sends it.
    pub fn create(&mut self, options: &Value) -> Result<String> {
        ensure!(options["rp"]["id"] == "service.test", "{options}");
        ensure!(options["pubKeyCredParams"][0]["alg"] == -7, "{options}");
        let selection = &options["authenticatorSelection"];
        ensure!(selection["userVerification"] == "required" && selection["residentKey"] == "required", "{options}");
        self.user_handle = Some(decode(&options["user"]["id"])?);
        let key = self.public_key()?;
        let length = u16::try_from(self.credential_id.len())?.to_be_bytes();
        let credential = [&[7; 16][..], &length, &self.credential_id, &key].concat();
        let data = self.authenticator_data(&options["rp"]["id"], HAS_CREDENTIAL, &credential)?;
        let client_data = self.client_data("webauthn.create", options);
        Ok(json!({
            "id": encode(&self.credential_id),
            "response": { "clientDataJSON": encode(&client_data), "authenticatorData": encode(&data) },
        })
        .to_string())
    }

    /// Its public key, as authenticators write it.
    pub fn public_key(&self) -> Result<Vec<u8>> {
        let point = self.key.public_key().as_ref();
        let key =
            CoseKeyBuilder::new_ec2_pub_key(iana::EllipticCurve::P_256, point[1..33].to_vec(), point[33..].to_vec());
        let key = key.algorithm(iana::Algorithm::ES256).build();
        key.to_vec().map_err(|error| anyhow::anyhow!("{error}"))
    }

    /// Signs the challenge of a page, as the script of the page sends it.
    pub fn sign(&mut self, options: &Value) -> Result<String> {
        ensure!(options["userVerification"] == "required" && options["allowCredentials"].is_null(), "{options}");
        let data = self.authenticator_data(&options["rpId"], 0, &[])?;
        let client_data = self.client_data("webauthn.get", options);
        let message = [data.as_slice(), &sha256(&client_data)].concat();
        let signature = self.key.sign(&SystemRandom::new(), &message)?;
        let handle = self.user_handle.as_ref().map(|handle| encode(handle));
        Ok(json!({
            "id": encode(&self.credential_id),
            "response": {
                "clientDataJSON": encode(&client_data), "authenticatorData": encode(&data),
                "signature": encode(signature.as_ref()), "userHandle": handle,
            },
        })
        .to_string())
    }

    fn authenticator_data(&mut self, relying_party: &Value, flags: u8, credential: &[u8]) -> Result<Vec<u8>> {
        let asked = relying_party.as_str().context("no relying party")?;
        let relying_party = self.relying_party.as_deref().unwrap_or(asked);
        self.counter = self.counter.map(|counter| counter + 1);
        let counter = self.counter.unwrap_or_default().to_be_bytes();
        Ok([sha256(relying_party.as_bytes()).as_slice(), &[self.flags | flags], &counter, credential].concat())
    }

    fn client_data(&self, ceremony: &str, options: &Value) -> Vec<u8> {
        let Self { origin, cross_origin, .. } = self;
        let challenge = &options["challenge"];
        let data = json!({ "type": ceremony, "challenge": challenge, "origin": origin, "crossOrigin": cross_origin });
        data.to_string().into_bytes()
    }
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest(&SHA256, bytes).as_ref().to_vec()
}

#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn decode(value: &Value) -> Result<Vec<u8>> {
    Ok(BASE64_URL_SAFE_NO_PAD.decode(value.as_str().context("no text")?)?)
}

/// What a page asks the browser for.
pub fn options(page: &str) -> Result<Value> {
    let (_, rest) = page.split_once("data-passkey=\"").with_context(|| format!("no passkeys: {page}"))?;
    let written = rest.split('"').next().unwrap_or_default();
    let written = written.replace("&#34;", "\"").replace("&quot;", "\"").replace("&#39;", "'");
    let written = written.replace("&#60;", "<").replace("&#62;", ">").replace("&#38;", "&").replace("&amp;", "&");
    serde_json::from_str(&written).with_context(|| written.clone())
}
