//! The secret of a sign-in at a provider: it travels in `state`, and nonce and PKCE verifier are derived from it.
//!
//! The database holds the secret's SHA-256 only. So neither a copy of the database nor a log gives away what would complete
//! a sign-in.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use service_api::ids::FlowId;
use zeroize::Zeroizing;

use crate::crypto::{
    digest::{Digest, sha256},
    random,
    root_keys::{Purpose, RootKeys},
};

const SECRET_BYTES: usize = 32;

/// The secret of one sign-in at a provider. It has no `Debug`.
pub struct StateSecret(Zeroizing<[u8; SECRET_BYTES]>);

impl StateSecret {
    pub fn draw() -> anyhow::Result<Self> {
        Ok(Self(Zeroizing::new(random::bytes()?)))
    }

    /// Reads a `state`: the flow that it names, and the secret. One state has one spelling.
    #[must_use]
    pub fn read(state: &str) -> Option<(FlowId, Self)> {
        let (flow_id, secret) = state.split_once('.')?;
        let bytes = Zeroizing::new(BASE64_URL_SAFE_NO_PAD.decode(secret).ok()?);
        Some((flow_id.parse().ok()?, Self(Zeroizing::new(bytes.as_slice().try_into().ok()?))))
    }

    /// The `state` of an authorization request.
    #[must_use]
    pub fn state(&self, flow_id: FlowId) -> Zeroizing<String> {
        Zeroizing::new(format!("{flow_id}.{}", BASE64_URL_SAFE_NO_PAD.encode(&self.0[..])))
    }

    /// What the database knows of the secret.
    #[must_use]
    pub fn digest(&self) -> Digest {
        sha256(&self.0[..])
    }

    /// The `nonce` that the ID token must contain.
    #[must_use]
    pub fn nonce(&self, keys: &RootKeys) -> Zeroizing<String> {
        self.derive(keys, Purpose::SsoNonce)
    }

    /// The PKCE verifier.
    #[must_use]
    pub fn verifier(&self, keys: &RootKeys) -> Zeroizing<String> {
        self.derive(keys, Purpose::SsoVerifier)
    }

    fn derive(&self, keys: &RootKeys, purpose: Purpose) -> Zeroizing<String> {
        // The same on every node, also while a root key is being replaced.
        Zeroizing::new(BASE64_URL_SAFE_NO_PAD.encode(keys.name(purpose, &[&self.0[..]])))
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::crypto::root_keys::RootKey;

    #[test]
    fn a_state_is_read_in_one_spelling_and_gives_the_same_nonce_and_verifier() {
        let keys = RootKeys::new(&[RootKey { id: 1, bytes: Zeroizing::new([1; 32]) }]).unwrap();
        let (flow_id, drawn) = (FlowId::from(Uuid::from_u128(7)), StateSecret::draw().unwrap());
        let state = drawn.state(flow_id);
        let (named, read) = StateSecret::read(&state).unwrap();
        assert_eq!((named, read.digest()), (flow_id, drawn.digest()));
        assert_eq!(read.nonce(&keys), drawn.nonce(&keys));
        assert_eq!(read.verifier(&keys), drawn.verifier(&keys));
        assert_ne!(*read.nonce(&keys), *read.verifier(&keys));
        assert!(service_rules::authorization::is_verifier(&read.verifier(&keys)));
        let (id, secret) = state.split_once('.').unwrap();
        for wrong in ["", ".", id, &format!("{id}."), &format!("{id}.{secret}="), &format!("{id}.{secret}A"), secret] {
            assert!(StateSecret::read(wrong).is_none(), "{wrong}");
        }
    }
}
