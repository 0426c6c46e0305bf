//! Client authentication by a secret or by a signed assertion (RFC 7523, `private_key_jwt`).

use jsonwebtoken::Algorithm;
use service_api::token::{ClientAssertion, ClientSecret};
use service_rules::{
    clients::{self, Authentication, Client, Proof},
    limits::{Limited, Rate},
};

use crate::{
    app::App,
    crypto::digest::sha256,
    database::{self, Connection},
    flows::{
        RequestMeta,
        clients::assertions::{self, AssertionError, AssertionPolicy, Signer},
        rate_limit::Limit,
    },
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

/// The longest lifetime of an assertion, in seconds.
const MAX_ASSERTION_SECONDS: i64 = 600;
/// The signature algorithms of assertions.
pub const ALGORITHMS: [Algorithm; 3] = [Algorithm::ES256, Algorithm::RS256, Algorithm::EdDSA];

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
) -> Result<Proof, database::Error> {
    let Some(assertion) = &presented.assertion else { return Ok(presented.proof()) };
    let Some(client) = client.filter(|client| client.authentication == Authentication::PrivateKey) else {
        return Ok(Proof::Invalid);
    };
    let Some(jwks) = store::clients::find_jwks(db, &client.id).await? else { return Ok(Proof::Invalid) };
    let issuer = app.config.base_url.as_str();
    let token_endpoint = format!("{issuer}/oauth/token");
    let policy = AssertionPolicy {
        audiences: &[issuer, &token_endpoint],
        max_seconds: MAX_ASSERTION_SECONDS,
        algorithms: &ALGORITHMS,
    };
    let signer = Signer { client_id: &client.id, jwks: &jwks };
    match assertions::accept(app, db, signer, assertion, policy).await {
        Ok(()) => Ok(Proof::PrivateKey),
        Err(AssertionError::Database(error)) => Err(error),
        Err(AssertionError::Signature | AssertionError::Claims(_) | AssertionError::Replayed) => Ok(Proof::Invalid),
    }
}
