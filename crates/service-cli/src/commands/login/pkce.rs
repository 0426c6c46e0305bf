//! PKCE (RFC 7636): proves that the client that exchanges a code is the one that requested it. The only module that reads
//! random bytes.

use aws_lc_rs::{digest, rand};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use service_api::token::CodeVerifier;

use crate::failure::{Failure, FailureCode};

/// The verifier, its challenge, and the state of an authorization request.
pub(super) struct PkceProof {
    pub(super) verifier: CodeVerifier,
    pub(super) challenge: String,
    pub(super) state: String,
}

impl PkceProof {
    pub(super) fn generate() -> Result<Self, Failure> {
        let verifier = random_text()?;
        let challenge = BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()));
        Ok(Self { verifier: CodeVerifier::new(verifier), challenge, state: random_text()? })
    }
}

/// Returns 256 random bits as base64url.
#[expect(clippy::disallowed_methods, reason = "the one module of the command that reads random bytes")]
pub(crate) fn random_text() -> Result<String, Failure> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes)
        .map_err(|_| Failure::new(FailureCode::RequestFailed, "Can't get random bytes from the system."))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_the_digest_of_its_verifier_and_no_two_are_alike() {
        let (one, other) = (PkceProof::generate().unwrap(), PkceProof::generate().unwrap());
        assert_ne!(one.verifier.expose(), other.verifier.expose());
        assert_ne!(one.state, other.state);
        let digest = digest::digest(&digest::SHA256, one.verifier.expose().as_bytes());
        assert_eq!(one.challenge, BASE64_URL_SAFE_NO_PAD.encode(digest));
    }
}
