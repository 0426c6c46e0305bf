//! The one place that draws randomness: what proves that the code comes back to whoever asked (RFC 7636).

use aws_lc_rs::{digest, rand};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use service_api::token::CodeVerifier;

use crate::failure::{Code, Failure};

pub(super) struct Proof {
    pub(super) verifier: CodeVerifier,
    pub(super) challenge: String,
    pub(super) state: String,
}

impl Proof {
    pub(super) fn draw() -> Result<Self, Failure> {
        let verifier = random()?;
        let challenge = BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()));
        Ok(Self { verifier: CodeVerifier::new(verifier), challenge, state: random()? })
    }
}

#[expect(clippy::disallowed_methods, reason = "the command's one place that draws randomness")]
pub(super) fn random() -> Result<String, Failure> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).map_err(|_| Failure::new(Code::RequestFailed, "This machine gives no randomness."))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_the_digest_of_its_verifier_and_no_two_are_alike() {
        let (one, other) = (Proof::draw().unwrap(), Proof::draw().unwrap());
        assert_ne!(one.verifier.expose(), other.verifier.expose());
        assert_ne!(one.state, other.state);
        let digest = digest::digest(&digest::SHA256, one.verifier.expose().as_bytes());
        assert_eq!(one.challenge, BASE64_URL_SAFE_NO_PAD.encode(digest));
    }
}
