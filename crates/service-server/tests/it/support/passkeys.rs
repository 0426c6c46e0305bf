//! An authenticator of our own, whose every statement a test can change, and the pages that ask it for something.

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
use service_testkit::{
    server::TestServer,
    settings::BASE_URL,
    tab::{Shown, Tab},
};

use crate::support::sso_sign_ins::sign_in_by_code;

pub(crate) const SECURITY: &str = "/account/security";
pub(crate) const NEW: &str = "/account/security/passkeys/new";
pub(crate) const ADD: &str = "/account/security/passkeys";

/// What the pages say about a passkey that is not accepted, on the sign-in page.
pub(crate) const REFUSED: &str = "That passkey wasn’t accepted. Sign in with a code instead.";

/// The flags of authenticator data.
pub(crate) const USER_PRESENT: u8 = 0x01;
pub(crate) const USER_VERIFIED: u8 = 0x04;
pub(crate) const CAN_BE_BACKED_UP: u8 = 0x08;
pub(crate) const IS_BACKED_UP: u8 = 0x10;
const HAS_CREDENTIAL: u8 = 0x40;

/// A passkey and the device that holds it. A clone has the same key: it is a copy of the passkey.
#[derive(Clone)]
pub(crate) struct TestAuthenticator {
    pub(crate) key: Arc<EcdsaKeyPair>,
    pub(crate) credential_id: Vec<u8>,
    /// Set by the registration.
    pub(crate) user_handle: Option<Vec<u8>>,
    /// The number of signatures so far; `None`: it always says 0, as synchronized passkeys do.
    pub(crate) counter: Option<u32>,
    pub(crate) flags: u8,
    /// What the browser says about the page.
    pub(crate) origin: String,
    pub(crate) cross_origin: bool,
    /// The relying party that is signed; `None`: the one that the page asks for.
    pub(crate) relying_party: Option<String>,
}

impl TestAuthenticator {
    /// A device that counts its signatures, and keeps its passkey to itself.
    pub(crate) fn new() -> Result<Self> {
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
    pub(crate) fn synchronized() -> Result<Self> {
        let flags = USER_PRESENT | USER_VERIFIED | CAN_BE_BACKED_UP | IS_BACKED_UP;
        Ok(Self { counter: None, flags, ..Self::new()? })
    }

    /// Creates the passkey that a page asks for, as the script of the page sends it.
    pub(crate) fn create(&mut self, options: &Value) -> Result<String> {
        ensure!(options["rp"]["id"] == "service.test", "{options}");
        ensure!(options["pubKeyCredParams"][0]["alg"] == -7, "{options}");
        let selection = &options["authenticatorSelection"];
        ensure!(selection["userVerification"] == "required" && selection["residentKey"] == "required", "{options}");
        self.user_handle = Some(decode(&options["user"]["id"])?);
        let point = self.key.public_key().as_ref();
        let (x, y) = (point[1..33].to_vec(), point[33..].to_vec());
        let key = CoseKeyBuilder::new_ec2_pub_key(iana::EllipticCurve::P_256, x, y);
        let key = key.algorithm(iana::Algorithm::ES256).build().to_vec().map_err(|error| anyhow::anyhow!("{error}"))?;
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

    /// Signs the challenge of a page, as the script of the page sends it.
    pub(crate) fn sign(&mut self, options: &Value) -> Result<String> {
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

pub(crate) fn encode(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn decode(value: &Value) -> Result<Vec<u8>> {
    Ok(BASE64_URL_SAFE_NO_PAD.decode(value.as_str().context("no text")?)?)
}

/// What a page asks the browser for. The challenge must stay out of logs and tables.
pub(crate) fn options(server: &TestServer, page: &Shown) -> Result<Value> {
    ensure!(page.status == 200, "{}: {}", page.status, page.text);
    let (_, rest) = page.text.split_once("data-passkey=\"").with_context(|| format!("no passkeys: {}", page.text))?;
    let written = rest.split('"').next().unwrap_or_default();
    let written = written.replace("&#34;", "\"").replace("&quot;", "\"").replace("&#39;", "'");
    let written = written.replace("&#60;", "<").replace("&#62;", ">").replace("&#38;", "&").replace("&amp;", "&");
    let options: Value = serde_json::from_str(&written).with_context(|| written.clone())?;
    server.leaks.register("passkey challenge", options["challenge"].as_str().context("no challenge")?);
    Ok(options)
}

/// A sign-in that a browser has begun.
pub(crate) struct Begun {
    /// The address of the page.
    pub(crate) path: String,
    pub(crate) options: Value,
}

/// Opens the sign-in page.
pub(crate) async fn begin(server: &TestServer, tab: &Tab) -> Result<Begun> {
    let path = tab.get("/sign-in").await?.next()?.to_owned();
    let options = options(server, &tab.get(&path).await?)?;
    Ok(Begun { path, options })
}

impl Begun {
    /// Sends what an authenticator signed.
    pub(crate) async fn send(&self, tab: &Tab, response: &str) -> Result<Shown> {
        tab.submit(&format!("{}/passkey", self.path), &[("response", response)]).await
    }
}

/// Opens the sign-in page, and lets an authenticator sign. Returns the answer.
pub(crate) async fn sign_in(server: &TestServer, tab: &Tab, authenticator: &mut TestAuthenticator) -> Result<Shown> {
    let begun = begin(server, tab).await?;
    let response = authenticator.sign(&begun.options)?;
    begun.send(tab, &response).await
}

/// A browser in which a user has just signed in by code.
pub(crate) async fn signed_in_tab(server: &TestServer, email: &str) -> Result<Tab> {
    let tab = Tab::open(server)?;
    let entered = sign_in_by_code(server, &tab, email).await?;
    ensure!(entered.status == 303, "{}: {}", entered.status, entered.text);
    Ok(tab)
}

/// Opens the page that creates a passkey; returns what it asks for.
pub(crate) async fn ask_for_new(server: &TestServer, tab: &Tab) -> Result<Value> {
    tab.get(SECURITY).await?;
    options(server, &tab.submit(NEW, &[]).await?)
}

/// Adds a passkey. Returns the answer.
pub(crate) async fn add(
    server: &TestServer,
    tab: &Tab,
    authenticator: &mut TestAuthenticator,
    name: &str,
) -> Result<Shown> {
    let options = ask_for_new(server, tab).await?;
    let response = authenticator.create(&options)?;
    tab.submit(ADD, &[("name", name), ("response", &response)]).await
}

/// A browser of a user with a passkey, which is returned too.
pub(crate) async fn user_with_passkey(server: &TestServer, email: &str) -> Result<(Tab, TestAuthenticator)> {
    let (tab, mut authenticator) = (signed_in_tab(server, email).await?, TestAuthenticator::new()?);
    let added = add(server, &tab, &mut authenticator, "Laptop").await?;
    ensure!(added.status == 303, "{}: {}", added.status, added.text);
    Ok((tab, authenticator))
}

/// The addresses of the pages that ask before a listed passkey is removed, the newest passkey first.
pub(crate) async fn remove_paths(tab: &Tab) -> Result<Vec<String>> {
    let page = tab.get(SECURITY).await?;
    let links = page.text.split("href=\"/account/security/passkeys/").skip(1);
    Ok(links.filter_map(|rest| rest.split('"').next()).map(|end| format!("{ADD}/{end}")).collect())
}

/// Whether no user is signed in with a browser.
pub(crate) async fn is_signed_out(tab: &Tab) -> Result<bool> {
    Ok(tab.get("/account").await?.location.as_deref() == Some("/sign-in"))
}

/// Fails unless a passkey was refused with this sentence, and no user is signed in.
pub(crate) async fn check_refused(tab: &Tab, shown: &Shown, sentence: &str) -> Result<()> {
    ensure!(shown.status == 400 && shown.text.contains(sentence), "{}: {}", shown.status, shown.text);
    ensure!(is_signed_out(tab).await?, "the browser is signed in");
    Ok(())
}

/// How many audit events of this name there are.
pub(crate) async fn events(server: &TestServer, name: &str) -> Result<i64> {
    let counted = server.sql(&format!("select count(*) from audit_events where event = '{name}'")).await?;
    Ok(counted.context("nothing was counted")?.parse()?)
}
