//! Identity providers, and servers that trust them.

use std::sync::LazyLock;

use anyhow::Result;
use serde_json::{Value, json};
use service_api::{
    ids::Id as _,
    token::{ClientSecret, CodeVerifier},
};
use service_server::{
    crypto::random,
    issuers::{
        VerifiedClaims,
        error::IssuerError,
        token_endpoint::{CodeExchange, ProviderClient, ProviderCredential, ProviderSecret, ProviderTokens},
        trusted_issuer::TrustedIssuer,
    },
    store,
};
use service_testkit::{
    identity_provider::{IdentityProvider, UnstartedProvider},
    server::{Setup, TestServer},
};

/// Runs a test with providers without TLS, at which the operator of the server has allowed these networks.
pub(crate) fn with_providers<const N: usize>(
    test: impl AsyncFnOnce(&TestServer, &[IdentityProvider; N]) -> Result<()>,
) -> Result<()> {
    let mut unstarted = Vec::new();
    for _ in 0..N {
        unstarted.push(UnstartedProvider::new()?);
    }
    let allowed: Vec<_> = unstarted.iter().map(|provider| format!("{}=127.0.0.1/32", provider.issuer())).collect();
    Setup::default().set("sso.allowed_issuers", &allowed.join(", ")).run(async |server| {
        let started = unstarted.into_iter().map(|provider| provider.start(None)).collect::<Result<Vec<_>>>()?;
        let started = started.try_into().map_err(|_| anyhow::anyhow!("another number of providers"))?;
        test(server, &started).await
    })
}

/// Lets a new workspace trust an issuer.
pub(crate) async fn trust(server: &TestServer, issuer: &str) -> Result<TrustedIssuer> {
    let workspace_id = server.make_workspace("Acme", &[]).await?;
    let trusted = TrustedIssuer {
        id: random::id_in(workspace_id.shard(), server.now())?,
        issuer: issuer.to_owned(),
        jwks: None,
        algorithms: vec!["ES256".into()],
        purposes: vec![store::trusted_issuers::SIGN_IN.into()],
    };
    store::trusted_issuers::insert(&server.app.database.connect().await?, workspace_id, &trusted, server.now()).await?;
    Ok(trusted)
}

/// Verifies a token as a token of this issuer.
pub(crate) async fn verify(
    server: &TestServer,
    issuer: &TrustedIssuer,
    token: &str,
) -> Result<VerifiedClaims, IssuerError> {
    let token = ProviderSecret::new(token.to_owned());
    server.app.issuers.verify(issuer, store::trusted_issuers::SIGN_IN, &token).await
}

/// The secret of the client at the provider.
pub(crate) const CLIENT_SECRET: &str = "canary+client secret/of the:provider";
/// The code that the provider sent.
pub(crate) const CODE: &str = "canary-authorization-code";
pub(crate) const VERIFIER: &str = "canary-verifier-of-the-code-exchange-0123456789";

/// Authenticates with `client_secret_basic`.
pub(crate) fn secret_basic() -> ProviderCredential<'static> {
    static SECRET: LazyLock<ClientSecret> = LazyLock::new(|| ClientSecret::new(CLIENT_SECRET.to_owned()));
    ProviderCredential::SecretBasic(&SECRET)
}

/// Exchanges a code at the provider as the client `service`.
pub(crate) async fn exchange(
    server: &TestServer,
    issuer: &TrustedIssuer,
    credential: &ProviderCredential<'_>,
) -> Result<ProviderTokens, IssuerError> {
    for secret in [CLIENT_SECRET, CODE, VERIFIER] {
        server.leaks.register("secret of a provider", secret);
    }
    let (code, verifier) = (ProviderSecret::new(CODE.to_owned()), CodeVerifier::new(VERIFIER.to_owned()));
    let client = ProviderClient { client_id: "service:1", credential: *credential };
    let exchange =
        CodeExchange { code: &code, redirect_uri: "https://service.test/sso/callback/1", verifier: &verifier };
    server.app.issuers.exchange_code(issuer, &client, &exchange).await
}

/// The claims of an ID token.
pub(crate) fn claims(issuer: &str) -> Value {
    json!({ "iss": issuer, "sub": "ann", "aud": "service" })
}
