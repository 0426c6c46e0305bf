//! Client authentication by a secret or by a signed assertion (RFC 7523, `private_key_jwt`).

use jsonwebtoken::{
    Algorithm, DecodingKey, Validation,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet},
};
use serde::Deserialize;
use service_api::token::{ClientAssertion, ClientSecret};
use service_rules::{
    Timestamp,
    clients::{self, Authentication, Client, Proof},
    lifetimes,
    limits::{Limited, Rate},
};

use crate::{
    app::App,
    crypto::digest::sha256,
    database::{self, Connection},
    flows::{RequestMeta, rate_limit::Limit},
    store,
};

/// Why the authentication of a client is not verified.
#[derive(Debug, thiserror::Error)]
pub enum ClientProofError {
    /// Too many wrong secrets or signatures for this client from this network.
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// The client that a request names, and how it authenticates.
#[derive(Default)]
pub struct PresentedClient {
    pub id: Option<String>,
    pub secret: Option<ClientSecret>,
    pub assertion: Option<ClientAssertion>,
}

impl PresentedClient {
    /// The proof, except that a signature has to be verified first.
    #[must_use]
    pub fn proof(&self) -> Proof {
        match (&self.secret, &self.assertion) {
            (None, None) => Proof::Nothing,
            (Some(secret), None) => Proof::Secret(sha256(secret.expose())),
            (_, Some(_)) => Proof::Invalid,
        }
    }
}

/// The rate of wrong secrets and signatures for one client from one network: five, then one every twelve seconds.
const MAX_FAILURE_RATE: Rate = Rate { burst: 5, per_hour: 300 };

/// The longest lifetime of an assertion, in seconds. An attacker who finds one can use it for this long at most.
const MAX_ASSERTION_SECONDS: i64 = 600;
/// The signature algorithms of assertions.
const ALGORITHMS: [Algorithm; 3] = [Algorithm::ES256, Algorithm::RS256, Algorithm::EdDSA];

#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: Audience,
    exp: i64,
    jti: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

/// Verifies the client authentication of a request. Wrong attempts are rate limited.
pub async fn verify_proof(
    app: &App,
    meta: &RequestMeta,
    client: Option<&Client>,
    presented: &PresentedClient,
) -> Result<Proof, ClientProofError> {
    let Some(known) = client.filter(|client| client.authentication != Authentication::None) else {
        return Ok(presented.proof());
    };
    let now = app.clock.now();
    let whom = format!("{} {}", known.id, meta.network);
    let limit = Limit { policy: "client-failures", whom: whom.as_bytes() };
    let db = app.database.connect().await?;
    if let Some(limited) = limit.is_exhausted(app, &db, MAX_FAILURE_RATE, now).await? {
        return Err(limited.into());
    }
    let proof = verify_assertion(app, &db, client, presented).await?;
    if clients::authenticate(client, &proof).is_err() && proof != Proof::Nothing {
        limit.take_at_rate(app, &db, MAX_FAILURE_RATE, now).await?;
    }
    Ok(proof)
}

/// Verifies a signed assertion. Each can be used once.
async fn verify_assertion(
    app: &App,
    db: &Connection,
    client: Option<&Client>,
    presented: &PresentedClient,
) -> anyhow::Result<Proof> {
    let Some(assertion) = &presented.assertion else { return Ok(presented.proof()) };
    let Some(client) = client.filter(|client| client.authentication == Authentication::PrivateKey) else {
        return Ok(Proof::Invalid);
    };
    let jwks = store::clients::find_jwks(db, &client.id).await?.and_then(|jwks| serde_json::from_value(jwks).ok());
    let claims = jwks.and_then(|jwks| read(&jwks, assertion.expose()));
    let now = app.clock.now().as_second();
    let Some(claims) = claims.filter(|claims| is_acceptable(app, claims, &client.id, now)) else {
        return Ok(Proof::Invalid);
    };
    let digest = sha256(format!("{} {}", client.id, claims.jti));
    let kept_until = Timestamp::from_second(claims.exp + lifetimes::CLOCK_SKEW)?;
    let first = store::client_assertions::insert(db, &digest, kept_until).await?;
    Ok(if first { Proof::PrivateKey } else { Proof::Invalid })
}

/// Checks that signatures can be verified with these keys, and that a signature can name its key.
pub fn check_keys(jwks: &serde_json::Value) -> anyhow::Result<()> {
    let set: JwkSet = serde_json::from_value(jwks.clone())
        .map_err(|error| anyhow::anyhow!("the file is not a valid JSON Web Key Set: {error}"))?;
    anyhow::ensure!(!set.keys.is_empty(), "the JSON Web Key Set has no keys");
    for (place, key) in set.keys.iter().enumerate() {
        anyhow::ensure!(
            is_usable(key) && DecodingKey::from_jwk(key).is_ok(),
            "key {} of the set is not supported: use P-256 keys for ES256, RSA keys for RS256, or Ed25519 keys for EdDSA",
            place + 1
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

fn is_usable(key: &Jwk) -> bool {
    match &key.algorithm {
        AlgorithmParameters::EllipticCurve(parameters) => parameters.curve == EllipticCurve::P256,
        AlgorithmParameters::OctetKeyPair(parameters) => parameters.curve == EllipticCurve::Ed25519,
        AlgorithmParameters::RSA(_) => true,
        _ => false,
    }
}

fn read(keys: &JwkSet, assertion: &str) -> Option<Claims> {
    let header = jsonwebtoken::decode_header(assertion).ok().filter(|header| ALGORITHMS.contains(&header.alg))?;
    let key = match (&header.kid, keys.keys.as_slice()) {
        (Some(kid), _) => keys.find(kid)?,
        (None, [only]) => only,
        (None, _) => return None,
    };
    let mut validation = Validation::new(header.alg);
    // Expiry and audience are checked below, by the clock of this service.
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.set_required_spec_claims(&["exp", "iss", "sub", "aud"]);
    let decoded = jsonwebtoken::decode::<Claims>(assertion, &DecodingKey::from_jwk(key).ok()?, &validation);
    decoded.ok().map(|decoded| decoded.claims)
}

/// Whether an assertion is by this client, for this service, and in time.
fn is_acceptable(app: &App, claims: &Claims, client_id: &str, now: i64) -> bool {
    let base_url = &app.config.base_url;
    let is_ours = |audience: &String| audience == base_url || *audience == format!("{base_url}/oauth/token");
    let for_us = match &claims.aud {
        Audience::One(audience) => is_ours(audience),
        Audience::Many(audiences) => audiences.len() == 1 && audiences.iter().all(is_ours),
    };
    let (skew, jti) = (lifetimes::CLOCK_SKEW, claims.jti.len());
    // The upper bound comes first, so that the addition cannot overflow.
    let in_time = claims.exp <= now + MAX_ASSERTION_SECONDS + skew && claims.exp.saturating_add(skew) > now;
    for_us && in_time && claims.iss == client_id && claims.sub == client_id && (1..=256).contains(&jti)
}
