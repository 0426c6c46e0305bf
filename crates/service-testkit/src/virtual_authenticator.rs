//! Authenticators that a browser's driver makes up: Web Authentication's extension of `WebDriver`.

use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::{Value, json};

use crate::browser::Browser;

/// What an authenticator is and does.
#[derive(Clone, Copy, Debug)]
pub struct AuthenticatorKind {
    /// `internal` for one that is part of the device, `usb` for a security key.
    pub transport: &'static str,
    /// It can hold passkeys: credentials that a site does not have to name.
    pub holds_passkeys: bool,
    /// It has a way to verify its user: a PIN, a finger or a face.
    pub verifies_users: bool,
    /// The verification succeeds.
    pub is_verified: bool,
}

/// A part of the device that verifies its user.
pub const PLATFORM: AuthenticatorKind =
    AuthenticatorKind { transport: "internal", holds_passkeys: true, verifies_users: true, is_verified: true };

/// A security key with a PIN.
pub const SECURITY_KEY: AuthenticatorKind = AuthenticatorKind { transport: "usb", ..PLATFORM };

/// An authenticator of a browser.
pub struct VirtualAuthenticator<'a> {
    browser: &'a Browser,
    path: String,
}

impl Browser {
    /// Plugs an authenticator in.
    pub async fn plug_in(&self, kind: AuthenticatorKind) -> Result<VirtualAuthenticator<'_>> {
        let wanted = json!({
            "protocol": "ctap2",
            "transport": kind.transport,
            "hasResidentKey": kind.holds_passkeys,
            "hasUserVerification": kind.verifies_users,
            "isUserVerified": kind.is_verified,
            "isUserConsenting": true,
        });
        let made = self.call(Method::POST, "/webauthn/authenticator", &wanted).await?;
        let id = made.as_str().context("no authenticator")?;
        Ok(VirtualAuthenticator { browser: self, path: format!("/webauthn/authenticator/{id}") })
    }
}

impl VirtualAuthenticator<'_> {
    /// Returns its credentials, with their private keys and counters.
    pub async fn credentials(&self) -> Result<Vec<Value>> {
        let found = self.browser.call(Method::GET, &format!("{}/credentials", self.path), &Value::Null).await?;
        Ok(found.as_array().context("no list")?.clone())
    }

    /// Adds a credential, as [`VirtualAuthenticator::credentials`] returns one.
    pub async fn add_credential(&self, credential: &Value) -> Result<()> {
        self.browser.call(Method::POST, &format!("{}/credential", self.path), credential).await.map(drop)
    }

    /// From now on, the verification of its user succeeds or fails.
    pub async fn set_verified(&self, is_verified: bool) -> Result<()> {
        let body = json!({ "isUserVerified": is_verified });
        self.browser.call(Method::POST, &format!("{}/uv", self.path), &body).await.map(drop)
    }

    /// Unplugs it.
    pub async fn unplug(self) -> Result<()> {
        self.browser.call(Method::DELETE, &self.path, &json!({})).await.map(drop)
    }
}
