//! What a provider's response is worth: the code is exchanged, and the ID token is judged.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use service_api::{
    JsonObject,
    connections::AuthMethod,
    token::{ClientSecret, CodeVerifier},
};
use service_rules::{
    Timestamp,
    id_token::{self, EmailVerified, ExpectedIdToken, IdToken},
};
use tokio::time::timeout;

use crate::{
    app::App,
    flows::{
        oauth::authorize::SignInFlow,
        sso::{RefusedSignInError, SsoError, redirect_uri, refused},
    },
    issuers::{
        client_key::ClientKey,
        error::{IssuerError, ProviderRequest},
        token_endpoint::{CodeExchange, ProviderClient, ProviderCredential, ProviderSecret},
    },
    net::outbound::FetchError,
    store::{connections::StoredConnection, trusted_issuers::SIGN_IN},
    tokens::sso_state::StateSecret,
};

/// How long a user waits for a provider at most, whatever has to be requested there.
const PROVIDER_TIMEOUT: Duration = Duration::from_secs(4);
/// Bytes of the longest error code that is shown and logged.
const MAX_ERROR_BYTES: usize = 64;

/// The parameters of a provider's authorization response.
pub struct ProviderResponse<'a> {
    pub(super) state: Option<&'a str>,
    code: Option<&'a str>,
    issuer: Option<&'a str>,
    error: Option<&'a str>,
}

impl<'a> ProviderResponse<'a> {
    /// Reads the parameters of a response. `None`: one of them is repeated.
    #[must_use]
    pub fn read(pairs: &'a [(String, String)]) -> Option<Self> {
        let single = |name: &str| {
            let mut found = pairs.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
            let first = found.next();
            found.next().is_none().then_some(first.filter(|value| !value.is_empty()))
        };
        Some(Self { state: single("state")?, code: single("code")?, issuer: single("iss")?, error: single("error")? })
    }

    /// The error code, if it is one: other text is not shown.
    fn error_code(&self) -> Option<String> {
        let is_code = |text: &str| {
            text.len() <= MAX_ERROR_BYTES && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        };
        self.error.map(|error| if is_code(error) { error.to_owned() } else { "unknown_error".to_owned() })
    }
}

/// Why a response is not worth an ID token.
#[derive(Debug, thiserror::Error)]
pub(super) enum RedeemError {
    #[error("the sign-in is refused: {0}")]
    Refused(RefusedSignInError),
    #[error(transparent)]
    Defect(anyhow::Error),
}

impl<E: Into<RefusedSignInError>> From<E> for RedeemError {
    fn from(error: E) -> Self {
        Self::Refused(error.into())
    }
}

impl RedeemError {
    pub(super) fn into_sso_error(self, connection: &StoredConnection, flow: &SignInFlow) -> SsoError {
        match self {
            Self::Refused(error) => refused(connection, flow, error),
            Self::Defect(error) => error.into(),
        }
    }
}

/// Exchanges the code of a response for an ID token, and judges the token.
pub(super) async fn redeem(
    app: &App,
    connection: &StoredConnection,
    response: &ProviderResponse<'_>,
    secret: &StateSecret,
    now: Timestamp,
) -> Result<IdToken, RedeemError> {
    let slow = IssuerError::Request { request: ProviderRequest::Token, why: FetchError::TooSlow };
    let running = redeem_now(app, connection, response, secret, now);
    timeout(PROVIDER_TIMEOUT, running).await.unwrap_or(Err(slow.into()))
}

async fn redeem_now(
    app: &App,
    connection: &StoredConnection,
    response: &ProviderResponse<'_>,
    secret: &StateSecret,
    now: Timestamp,
) -> Result<IdToken, RedeemError> {
    let issuer = &connection.issuer;
    let metadata = app.issuers.metadata(issuer).await?;
    let is_ours = response.issuer.map_or(!metadata.iss_parameter, |named| named == issuer.issuer);
    if !is_ours {
        return Err(RefusedSignInError::OtherIssuer.into());
    }
    if let Some(error) = response.error_code() {
        return Err(RefusedSignInError::Provider(error).into());
    }
    let code = ProviderSecret::new(response.code.ok_or(RefusedSignInError::NoCode)?.to_owned());
    let credential = StoredCredential::open(app, connection).map_err(RedeemError::Defect)?;
    let client_id = connection.client_id.as_deref().unwrap_or_default();
    let client = ProviderClient { client_id, credential: credential.presented() };
    let redirect_uri = redirect_uri(app, connection.id);
    let verifier = CodeVerifier::new(secret.verifier(&app.root_keys).to_string());
    let exchange = CodeExchange { code: &code, redirect_uri: &redirect_uri, verifier: &verifier };
    let tokens = app.issuers.exchange_code(issuer, &client, &exchange).await?;
    let verified = app.issuers.verify(issuer, SIGN_IN, &tokens.id_token).await?;
    let nonce = secret.nonce(&app.root_keys);
    let expected = ExpectedIdToken { issuer: &issuer.issuer, client_id, nonce: &nonce, now };
    let mut token = id_token::judge(verified.typ.as_deref(), &verified.claims, &expected)?;
    if let (None, Some(_), Some(access_token)) = (&token.email, &metadata.userinfo_endpoint, &tokens.access_token) {
        let about = app.issuers.user_info(issuer, access_token, &token.subject).await?;
        token.email = about.claims.get("email").and_then(Value::as_str).map(str::to_owned);
        // What the ID token denies, userinfo does not make good.
        if token.email_verified != EmailVerified::Other {
            token.email_verified = EmailVerified::read(&about.claims);
        }
    }
    Ok(token)
}

/// The credential of this service at a provider, opened for one request.
enum StoredCredential {
    Basic(ClientSecret),
    Post(ClientSecret),
    Key(ClientKey),
}

impl StoredCredential {
    fn open(app: &App, connection: &StoredConnection) -> anyhow::Result<Self> {
        let sealed = connection.client_secret.as_deref().context("the connection has no credential")?;
        let opened = app.root_keys.open(&StoredConnection::secret_place(connection.id), sealed)?;
        let secret = || anyhow::Ok(ClientSecret::new(std::str::from_utf8(&opened)?.to_owned()));
        Ok(match connection.auth_method {
            AuthMethod::ClientSecretBasic => Self::Basic(secret()?),
            AuthMethod::ClientSecretPost => Self::Post(secret()?),
            AuthMethod::PrivateKeyJwt => Self::Key(ClientKey::from_pkcs8(opened)?),
        })
    }

    const fn presented(&self) -> ProviderCredential<'_> {
        match self {
            Self::Basic(secret) => ProviderCredential::SecretBasic(secret),
            Self::Post(secret) => ProviderCredential::SecretPost(secret),
            Self::Key(key) => ProviderCredential::PrivateKey(key),
        }
    }
}

/// The public key of this service at a provider, as a JWK Set. `None`: the service authenticates with a secret.
pub(super) fn public_key(app: &App, connection: &StoredConnection) -> anyhow::Result<Option<JsonObject>> {
    if connection.auth_method != AuthMethod::PrivateKeyJwt || connection.client_secret.is_none() {
        return Ok(None);
    }
    let StoredCredential::Key(key) = StoredCredential::open(app, connection)? else { return Ok(None) };
    Ok(Some(JsonObject::from_iter([("keys".to_owned(), json!([key.public_jwk()?]))])))
}
