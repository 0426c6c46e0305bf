//! Signed assertions of clients (RFC 7523): whose they are, whom they are for, and that each counts once.
//!
//! The public endpoints and the support listener accept assertions by the same steps. They differ in the policy: other
//! audiences, so an assertion for one is no good for the other.

use jsonwebtoken::{
    Algorithm, DecodingKey, Validation,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet},
};
use serde_json::Value;
use service_api::token::ClientAssertion;
use service_rules::client_assertions::{self, AssertionClaims, AssertionClaimsError, ExpectedAssertion};

use crate::{
    app::App,
    crypto::digest::sha256,
    database::{self, Connection},
    store,
};

/// Which assertions a listener accepts.
#[derive(Clone, Copy)]
pub struct AssertionPolicy<'a> {
    pub audiences: &'a [&'a str],
    /// The longest lifetime, in seconds.
    pub max_seconds: i64,
    pub algorithms: &'static [Algorithm],
}

/// The client that an assertion is by, and its public keys.
#[derive(Clone, Copy)]
pub struct Signer<'a> {
    pub client_id: &'a str,
    pub jwks: &'a Value,
}

/// Why an assertion does not authenticate its client.
#[derive(Debug, thiserror::Error)]
pub enum AssertionError {
    #[error("no key of the client made the signature")]
    Signature,
    #[error(transparent)]
    Claims(#[from] AssertionClaimsError),
    #[error("the assertion was used before")]
    Replayed,
    #[error(transparent)]
    Database(#[from] database::Error),
}

/// Accepts an assertion, once. The database remembers it until it has expired, for all nodes.
pub async fn accept(
    app: &App,
    db: &Connection,
    signer: Signer<'_>,
    assertion: &ClientAssertion,
    policy: AssertionPolicy<'_>,
) -> Result<(), AssertionError> {
    let claims = read(signer.jwks, assertion.expose(), policy.algorithms).ok_or(AssertionError::Signature)?;
    let expected = ExpectedAssertion {
        client_id: signer.client_id,
        audiences: policy.audiences,
        max_seconds: policy.max_seconds,
        now: app.clock.now(),
    };
    let forget_at = client_assertions::judge(&claims, &expected)?;
    let digest = sha256(format!("{} {}", signer.client_id, claims.jti));
    let is_first = store::client_assertions::insert(db, &digest, forget_at).await?;
    if is_first { Ok(()) } else { Err(AssertionError::Replayed) }
}

/// Checks that signatures by these algorithms can be verified with the keys, and that a signature can name its key.
pub fn check_keys(jwks: &Value, algorithms: &[Algorithm]) -> anyhow::Result<()> {
    let set: JwkSet = serde_json::from_value(jwks.clone())
        .map_err(|error| anyhow::anyhow!("the file is not a valid JSON Web Key Set: {error}"))?;
    anyhow::ensure!(!set.keys.is_empty(), "the JSON Web Key Set has no keys");
    let of_algorithms: Vec<_> = algorithms.iter().map(|algorithm| kind_of_key(*algorithm)).collect();
    for (place, key) in set.keys.iter().enumerate() {
        let is_usable = algorithm(key).is_some_and(|algorithm| algorithms.contains(&algorithm));
        anyhow::ensure!(
            is_usable && DecodingKey::from_jwk(key).is_ok(),
            "key {} of the set is not supported: use {}",
            place + 1,
            of_algorithms.join(", or ")
        );
        let is_named = key
            .common
            .key_id
            .as_ref()
            .is_some_and(|kid| set.keys[..place].iter().all(|other| other.common.key_id.as_ref() != Some(kid)));
        anyhow::ensure!(is_named || set.keys.len() == 1, "each of several keys needs its own kid");
    }
    Ok(())
}

/// The algorithm that a key signs by.
fn algorithm(key: &Jwk) -> Option<Algorithm> {
    match &key.algorithm {
        AlgorithmParameters::EllipticCurve(parameters) if parameters.curve == EllipticCurve::P256 => {
            Some(Algorithm::ES256)
        }
        AlgorithmParameters::OctetKeyPair(parameters) if parameters.curve == EllipticCurve::Ed25519 => {
            Some(Algorithm::EdDSA)
        }
        AlgorithmParameters::RSA(_) => Some(Algorithm::RS256),
        _ => None,
    }
}

const fn kind_of_key(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::ES256 => "P-256 keys for ES256",
        Algorithm::EdDSA => "Ed25519 keys for EdDSA",
        _ => "RSA keys for RS256",
    }
}

fn read(jwks: &Value, assertion: &str, algorithms: &[Algorithm]) -> Option<AssertionClaims> {
    let keys: JwkSet = serde_json::from_value(jwks.clone()).ok()?;
    let header = jsonwebtoken::decode_header(assertion).ok().filter(|header| algorithms.contains(&header.alg))?;
    let key = match (&header.kid, keys.keys.as_slice()) {
        (Some(kid), _) => keys.find(kid)?,
        (None, [only]) => only,
        (None, _) => return None,
    };
    let mut validation = Validation::new(header.alg);
    // Expiry and audience are judged by the rules, with the clock of this service.
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.set_required_spec_claims(&["exp", "iss", "sub", "aud"]);
    let decoded = jsonwebtoken::decode::<AssertionClaims>(assertion, &DecodingKey::from_jwk(key).ok()?, &validation);
    decoded.ok().map(|decoded| decoded.claims)
}
