//! Clients that prove themselves: by a secret, or by signing (RFC 7523, `private_key_jwt`).

use jsonwebtoken::{Algorithm, DecodingKey, Validation, jwk::JwkSet};
use serde::Deserialize;
use service_rules::{
    Timestamp,
    clients::{self, Authentication, Client, Proof, Refusal},
    lifetimes,
    limits::Rate,
};

use crate::{
    app::App,
    database::Connection,
    digest::sha256,
    failure::Failure,
    flows::{
        Asker,
        clients::PresentedClient,
        limit::{Limit, network_of},
    },
    store,
};

/// Wrong secrets and signatures for one client from one network: five, then one every twelve seconds.
const FAILURES: Rate = Rate { burst: 5, per_hour: 300 };

/// What is signed for longer than this could be used by whoever finds it.
const LONGEST: i64 = 600;
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

/// By what a request's client proved itself. Whoever guesses is soon told to wait.
pub async fn prove(
    app: &App,
    asker: &Asker,
    client: Option<&Client>,
    presented: &PresentedClient,
) -> Result<Proof, Failure<Refusal>> {
    let Some(known) = client.filter(|client| client.authentication != Authentication::None) else {
        return Ok(presented.proof());
    };
    let now = app.clock.now();
    let whom = format!("{} {}", known.id, network_of(asker.address));
    let limit = Limit { policy: "client-failures", whom: whom.as_bytes() };
    let db = app.database.connect().await?;
    if let Some(limited) = limit.is_exhausted(app, &db, FAILURES, now).await? {
        return Err(Failure::Refused(Refusal::Limited(limited)));
    }
    let proof = verify(app, &db, client, presented).await?;
    if clients::authenticate(client, &proof).is_err() && proof != Proof::Nothing {
        limit.take_at_rate(app, &db, FAILURES, now).await?;
    }
    Ok(proof)
}

/// A signature is verified, and counts once.
async fn verify(
    app: &App,
    db: &Connection,
    client: Option<&Client>,
    presented: &PresentedClient,
) -> anyhow::Result<Proof> {
    let Some(assertion) = &presented.assertion else { return Ok(presented.proof()) };
    let Some(client) = client.filter(|client| client.authentication == Authentication::PrivateKey) else {
        return Ok(Proof::Worthless);
    };
    let jwks = store::clients::find_jwks(db, &client.id).await?.and_then(|jwks| serde_json::from_value(jwks).ok());
    let claims = jwks.and_then(|jwks| read(&jwks, assertion.expose()));
    let now = app.clock.now().as_second();
    let Some(claims) = claims.filter(|claims| is_meant(app, claims, &client.id, now)) else {
        return Ok(Proof::Worthless);
    };
    let digest = sha256(format!("{} {}", client.id, claims.jti));
    let kept_until = Timestamp::from_second(claims.exp + lifetimes::CLOCK_SKEW)?;
    let first = store::client_assertions::insert(db, &digest, kept_until).await?;
    Ok(if first { Proof::PrivateKey } else { Proof::Worthless })
}

fn read(keys: &JwkSet, assertion: &str) -> Option<Claims> {
    let header = jsonwebtoken::decode_header(assertion).ok().filter(|header| ALGORITHMS.contains(&header.alg))?;
    let key = match (&header.kid, keys.keys.as_slice()) {
        (Some(kid), _) => keys.find(kid)?,
        (None, [only]) => only,
        (None, _) => return None,
    };
    let mut validation = Validation::new(header.alg);
    // Time and audience are judged by our own clock and names.
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.set_required_spec_claims(&["exp", "iss", "sub", "aud"]);
    let decoded = jsonwebtoken::decode::<Claims>(assertion, &DecodingKey::from_jwk(key).ok()?, &validation);
    decoded.ok().map(|decoded| decoded.claims)
}

fn is_meant(app: &App, claims: &Claims, client_id: &str, now: i64) -> bool {
    let base_url = &app.config.base_url;
    let is_ours = |audience: &String| audience == base_url || *audience == format!("{base_url}/oauth/token");
    let for_us = match &claims.aud {
        Audience::One(audience) => is_ours(audience),
        Audience::Many(audiences) => audiences.len() == 1 && audiences.iter().all(is_ours),
    };
    let (skew, jti) = (lifetimes::CLOCK_SKEW, claims.jti.len());
    let in_time = claims.exp + skew > now && claims.exp <= now + LONGEST + skew;
    for_us && in_time && claims.iss == client_id && claims.sub == client_id && (1..=256).contains(&jti)
}
