//! The relying party of passkeys: this installation, as authenticators know it.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use service_rules::passkeys::{CHALLENGE_BYTES, Expected, PublicKey};
use url::{Host, Url};

use crate::{
    app::App,
    crypto::digest::{Digest, sha256},
    store::passkeys::{ListedPasskey, PasskeyUser},
};

/// Milliseconds that a browser waits for the user.
const TIMEOUT: u32 = 300_000;

/// The host and the origin of the service's pages.
pub(crate) struct RelyingParty {
    id: String,
    id_digest: Digest,
    origin: String,
}

/// A random value that an authenticator signs.
pub(crate) type Challenge = [u8; CHALLENGE_BYTES];

impl RelyingParty {
    /// The relying party of this installation. `None`: its pages are at an IP address, for which there are no passkeys.
    pub(crate) fn of(app: &App) -> Option<Self> {
        Self::at(&app.config.base_url)
    }

    fn at(base_url: &str) -> Option<Self> {
        let url = Url::parse(base_url).ok()?;
        let Some(Host::Domain(host)) = url.host() else { return None };
        let origin = url.origin().ascii_serialization();
        Some(Self { id: host.to_owned(), id_digest: sha256(host), origin })
    }

    /// What the responses to a challenge must say.
    pub(crate) fn expected<'a>(&'a self, challenge: &'a Challenge) -> Expected<'a> {
        Expected { challenge, origin: &self.origin, relying_party: &self.id_digest }
    }

    /// What a page asks the browser for to sign in: `PublicKeyCredentialRequestOptionsJSON`. It names no passkey, so the user
    /// chooses among those that the browser has.
    pub(crate) fn request_options(&self, challenge: &Challenge) -> Value {
        json!({
            "challenge": text(challenge), "rpId": self.id, "userVerification": "required", "timeout": TIMEOUT,
        })
    }

    /// What a page asks the browser for to create a passkey: `PublicKeyCredentialCreationOptionsJSON`. An authenticator that
    /// has a passkey of the user already makes no second one.
    pub(crate) fn creation_options(&self, challenge: &Challenge, new: &PasskeyRequest<'_>) -> Value {
        let parameters =
            PublicKey::ALGORITHMS.map(|algorithm| json!({ "type": "public-key", "alg": algorithm as i64 }));
        let existing: Vec<_> = new
            .existing
            .iter()
            .map(|passkey| json!({ "type": "public-key", "id": text(&passkey.credential_id) }))
            .collect();
        json!({
            "challenge": text(challenge),
            "rp": { "id": self.id, "name": new.brand },
            "user": { "id": text(&new.user.handle), "name": new.email, "displayName": new.email },
            "pubKeyCredParams": parameters,
            "authenticatorSelection": {
                "residentKey": "required", "requireResidentKey": true, "userVerification": "required",
            },
            "attestation": "none",
            "excludeCredentials": existing,
            "timeout": TIMEOUT,
        })
    }
}

/// A passkey that a user wants to create.
pub(crate) struct PasskeyRequest<'a> {
    pub(crate) brand: &'a str,
    pub(crate) email: &'a str,
    pub(crate) user: &'a PasskeyUser,
    pub(crate) existing: &'a [ListedPasskey],
}

fn text(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relying_party_has_a_host_name() {
        let id = |base_url| RelyingParty::at(base_url).map(|party| (party.id, party.origin));
        let found = |id: &str, origin: &str| Some((id.to_owned(), origin.to_owned()));
        assert_eq!(id("https://login.acme.test"), found("login.acme.test", "https://login.acme.test"));
        assert_eq!(id("http://localhost:8080"), found("localhost", "http://localhost:8080"));
        assert_eq!(id("http://127.0.0.1:8080"), None);
        assert_eq!(id("https://[::1]"), None);
    }
}
