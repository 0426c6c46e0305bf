//! A small OpenID provider on this machine: discovery, keys, authorization, tokens and userinfo, and faults on demand.
//!
//! It signs in the user that a test names, without a page, and checks what a real provider checks: client secret or assertion,
//! redirect URI, PKCE, and that a code is used once.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context as _, Result};
use axum::{
    Router,
    body::Bytes,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, jwk::JwkSet};
use serde_json::{Map, Value, json};
use service_server::{
    clock::Clock,
    crypto::{digest::pkce_challenge, random},
};
use service_testkit::server::TestServer;
use url::form_urlencoded;

use crate::support::forge::{encode, public_jwk};

pub(crate) const CLIENT_ID: &str = "service at acme";
pub(crate) const CLIENT_SECRET: &str = "a provider's secret: 7&%+é";

/// A port of this machine on which a provider will listen.
pub(crate) struct ProviderPort {
    listener: std::net::TcpListener,
    pub(crate) issuer: String,
}

/// A provider that runs until the test ends.
#[derive(Clone)]
pub(crate) struct Provider {
    pub(crate) issuer: String,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    issuer: String,
    clock: Clock,
    key: SigningKey,
    /// Signs instead of the published key.
    unpublished: Option<SigningKey>,
    /// Claims of the user who signs in next.
    user: Map<String, Value>,
    /// Claims that only the userinfo endpoint tells.
    user_info: Map<String, Value>,
    fault: Fault,
    sends_iss: bool,
    /// How clients can authenticate, and with which algorithms.
    auth_methods: Vec<String>,
    auth_algorithms: Vec<String>,
    /// The public keys of the client. `None`: it has a secret.
    client_keys: Option<Value>,
    /// The assertions that the client has sent.
    assertions: HashSet<String>,
    codes: HashMap<String, HashMap<String, String>>,
    /// The authorization requests, newest first.
    asked: VecDeque<HashMap<String, String>>,
    /// How many requests arrived, of any kind.
    requests: usize,
    number: u64,
}

/// What the provider does wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    None,
    /// Changes claims of the ID token; null removes one.
    Claims(fn(&mut Map<String, Value>)),
    AlgorithmNone,
    /// Signed with the client secret.
    Hs256,
    /// Signed with a key that it does not publish.
    UnpublishedKey,
    /// The authorization endpoint answers with this error.
    AuthorizationError(&'static str),
    /// The response names this issuer.
    IssParameter(&'static str),
    /// The token endpoint answers with this status and error.
    TokenError(u16, &'static str),
    /// Every answer is 500.
    Down,
    /// Nothing is answered.
    BlackHole,
    /// The token endpoint answers something else than JSON.
    Gibberish,
    /// Codes of anyone are accepted, and answered with a valid token for its own last request.
    AnyCode,
}

/// A key, and what it is known by.
#[derive(Clone)]
pub(crate) struct SigningKey {
    pkcs8: Vec<u8>,
    pub(crate) jwk: Value,
}

impl SigningKey {
    pub(crate) fn draw(kid: &str) -> Result<Self> {
        let pkcs8 = random::signing_key()?.to_vec();
        let jwk = public_jwk(&pkcs8, kid)?;
        Ok(Self { pkcs8, jwk })
    }

    /// Signs claims as a JWT of this type.
    pub(crate) fn sign(&self, typ: &str, claims: &Value) -> Result<String> {
        let mut header = Header::new(Algorithm::ES256);
        header.kid = self.jwk["kid"].as_str().map(str::to_owned);
        header.typ = Some(typ.to_owned());
        Ok(jsonwebtoken::encode(&header, claims, &EncodingKey::from_ec_der(&self.pkcs8))?)
    }
}

impl ProviderPort {
    pub(crate) fn bind() -> Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let issuer = format!("http://{}", listener.local_addr()?);
        Ok(Self { listener, issuer })
    }

    /// Starts the provider, with the clock of a server.
    pub(crate) fn serve(&self, server: &TestServer) -> Result<Provider> {
        let inner = Inner {
            issuer: self.issuer.clone(),
            clock: server.app.clock.clone(),
            key: SigningKey::draw("first")?,
            unpublished: None,
            user: Map::new(),
            user_info: Map::new(),
            fault: Fault::None,
            sends_iss: false,
            auth_methods: vec!["client_secret_basic".into()],
            auth_algorithms: Vec::new(),
            client_keys: None,
            assertions: HashSet::new(),
            codes: HashMap::new(),
            asked: VecDeque::new(),
            requests: 0,
            number: 0,
        };
        let provider = Provider { issuer: self.issuer.clone(), inner: Arc::new(Mutex::new(inner)) };
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/jwks", get(keys))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/userinfo", get(user_info))
            .with_state(provider.clone());
        let listener = tokio::net::TcpListener::from_std(self.listener.try_clone()?)?;
        tokio::spawn(async move { axum::serve(listener, router).await });
        server.leaks.register("client secret", CLIENT_SECRET);
        Ok(provider)
    }
}

impl Provider {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the claims of the user who signs in next.
    pub(crate) fn sign_in_as(&self, claims: &Value) {
        self.inner().user = claims.as_object().cloned().unwrap_or_default();
    }

    /// Sets what only the userinfo endpoint tells.
    pub(crate) fn tell_in_user_info(&self, claims: &Value) {
        self.inner().user_info = claims.as_object().cloned().unwrap_or_default();
    }

    pub(crate) fn fail(&self, fault: Fault) {
        self.inner().fault = fault;
    }

    /// Announces and sends the parameter `iss`.
    pub(crate) fn send_iss(&self) {
        self.inner().sends_iss = true;
    }

    /// Announces how clients can authenticate.
    pub(crate) fn list_auth(&self, methods: &[&str], algorithms: &[&str]) {
        let texts = |texts: &[&str]| texts.iter().copied().map(str::to_owned).collect();
        let mut inner = self.inner();
        (inner.auth_methods, inner.auth_algorithms) = (texts(methods), texts(algorithms));
    }

    /// Registers the public keys of the client (a JWK Set), which then has to authenticate with one of them.
    pub(crate) fn register_keys(&self, keys: &Value) {
        self.list_auth(&["private_key_jwt"], &["ES256"]);
        self.inner().client_keys = Some(keys.clone());
    }

    pub(crate) fn requests(&self) -> usize {
        self.inner().requests
    }

    /// A parameter of the last authorization request.
    pub(crate) fn asked(&self, name: &str) -> Option<String> {
        self.inner().asked.front()?.get(name).cloned()
    }

    /// Signs with another key from now on.
    pub(crate) fn rotate(&self, kid: &str) -> Result<()> {
        self.inner().key = SigningKey::draw(kid)?;
        Ok(())
    }

    /// Signs with this key from now on, without publishing it.
    pub(crate) fn sign_with(&self, key: &SigningKey) {
        self.inner().unpublished = Some(key.clone());
    }

    pub(crate) fn key(&self) -> SigningKey {
        self.inner().key.clone()
    }

    fn count(&self) -> Fault {
        let mut inner = self.inner();
        inner.requests += 1;
        inner.fault
    }
}

/// What a fault makes of any request; `None`: the request is answered.
async fn broken(fault: Fault) -> Option<Response> {
    match fault {
        Fault::Down => Some(StatusCode::INTERNAL_SERVER_ERROR.into_response()),
        Fault::BlackHole => std::future::pending().await,
        _ => None,
    }
}

fn json_response(status: u16, body: &Value) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or_default();
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

async fn discovery(State(provider): State<Provider>) -> Response {
    if let Some(response) = broken(provider.count()).await {
        return response;
    }
    let (issuer, inner) = (&provider.issuer, provider.inner());
    json_response(
        200,
        &json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"),
            "userinfo_endpoint": format!("{issuer}/userinfo"),
            "jwks_uri": format!("{issuer}/jwks"),
            "id_token_signing_alg_values_supported": ["ES256"],
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "authorization_response_iss_parameter_supported": inner.sends_iss,
            "token_endpoint_auth_methods_supported": inner.auth_methods,
            "token_endpoint_auth_signing_alg_values_supported": inner.auth_algorithms,
        }),
    )
}

async fn keys(State(provider): State<Provider>) -> Response {
    if let Some(response) = broken(provider.count()).await {
        return response;
    }
    json_response(200, &json!({ "keys": [provider.key().jwk] }))
}

fn parameters(text: &str) -> HashMap<String, String> {
    form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

async fn authorize(State(provider): State<Provider>, request: Request) -> Response {
    let fault = provider.count();
    if let Some(response) = broken(fault).await {
        return response;
    }
    let asked = parameters(request.uri().query().unwrap_or_default());
    let get = |name: &str| asked.get(name).cloned().unwrap_or_default();
    let (redirect_uri, state) = (get("redirect_uri"), get("state"));
    let mut pairs = vec![("state".to_owned(), state)];
    let mut inner = provider.inner();
    inner.asked.push_front(asked.clone());
    if let Fault::AuthorizationError(error) = fault {
        pairs.extend([("error".to_owned(), error.to_owned()), ("error_description".to_owned(), "<b>No</b>".into())]);
    } else {
        inner.number += 1;
        let code = format!("code-{}-of-{}", inner.number, encode(random::bytes::<16>().unwrap_or_default()));
        inner.codes.insert(code.clone(), asked);
        pairs.push(("code".into(), code));
    }
    match fault {
        Fault::IssParameter(other) => pairs.push(("iss".into(), other.into())),
        _ if inner.sends_iss => pairs.push(("iss".into(), inner.issuer.clone())),
        _ => {}
    }
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    let location = format!("{redirect_uri}?{query}");
    (StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response()
}

async fn token(State(provider): State<Provider>, headers: HeaderMap, body: Bytes) -> Response {
    let fault = provider.count();
    if let Some(response) = broken(fault).await {
        return response;
    }
    match fault {
        Fault::TokenError(status, error) => return json_response(status, &json!({ "error": error })),
        Fault::Gibberish => return (StatusCode::OK, [(header::CONTENT_TYPE, "text/html")], "<html>").into_response(),
        _ => {}
    }
    let sent = parameters(&String::from_utf8_lossy(&body));
    match provider.inner().redeem(&headers, &sent, fault) {
        Ok(tokens) => json_response(200, &tokens),
        Err(error) => json_response(400, &json!({ "error": "invalid_grant", "error_description": error.to_string() })),
    }
}

/// Checks the client secret of a token request.
fn check_secret(headers: &HeaderMap) -> Result<()> {
    let escape = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let basic = BASE64_STANDARD.encode(format!("{}:{}", escape(CLIENT_ID), escape(CLIENT_SECRET)));
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    anyhow::ensure!(authorization == Some(&format!("Basic {basic}")), "the client does not authenticate");
    Ok(())
}

impl Inner {
    /// Checks a token request as a provider does, and issues an ID token.
    fn redeem(&mut self, headers: &HeaderMap, sent: &HashMap<String, String>, fault: Fault) -> Result<Value> {
        let get = |name: &str| sent.get(name).map(String::as_str).unwrap_or_default();
        match self.client_keys.clone() {
            Some(keys) => self.check_assertion(&keys, headers, sent)?,
            None => check_secret(headers)?,
        }
        anyhow::ensure!(get("grant_type") == "authorization_code", "another grant type");
        if matches!(fault, Fault::AnyCode) {
            let nonce = self.asked.front().and_then(|asked| asked.get("nonce")).cloned().unwrap_or_default();
            return Ok(json!({ "token_type": "Bearer", "id_token": self.id_token(&nonce, fault)? }));
        }
        let asked = self.codes.remove(get("code")).context("no such code, or it was used")?;
        let asked = |name: &str| asked.get(name).cloned().unwrap_or_default();
        anyhow::ensure!(get("redirect_uri") == asked("redirect_uri"), "another redirect_uri");
        anyhow::ensure!(pkce_challenge(get("code_verifier")) == asked("code_challenge"), "another code_verifier");
        anyhow::ensure!(asked("code_challenge_method") == "S256", "not S256");
        let id_token = self.id_token(&asked("nonce"), fault)?;
        Ok(
            json!({ "access_token": "an access token", "token_type": "Bearer", "expires_in": 300, "id_token": id_token }),
        )
    }

    /// Checks the assertion of a client (RFC 7523 section 3) with its registered keys.
    fn check_assertion(&mut self, keys: &Value, headers: &HeaderMap, sent: &HashMap<String, String>) -> Result<()> {
        let get = |name: &str| sent.get(name).map(String::as_str).unwrap_or_default();
        anyhow::ensure!(headers.get(header::AUTHORIZATION).is_none(), "two ways to authenticate");
        anyhow::ensure!(!sent.contains_key("client_secret"), "two ways to authenticate");
        anyhow::ensure!(get("client_assertion_type").ends_with(":client-assertion-type:jwt-bearer"), "another type");
        let assertion = get("client_assertion");
        let kid = jsonwebtoken::decode_header(assertion)?.kid.context("no kid")?;
        let keys: JwkSet = serde_json::from_value(keys.clone())?;
        let key = keys.find(&kid).context("an unknown key")?;
        let mut validation = Validation::new(Algorithm::ES256);
        // The time is that of the test.
        (validation.validate_exp, validation.leeway) = (false, 0);
        validation.set_required_spec_claims(&["iss", "sub", "aud", "exp"]);
        validation.set_audience(&[format!("{}/token", self.issuer)]);
        validation.set_issuer(&[CLIENT_ID]);
        validation.sub = Some(CLIENT_ID.to_owned());
        let claims = jsonwebtoken::decode::<Value>(assertion, &DecodingKey::from_jwk(key)?, &validation)?.claims;
        let (now, exp) = (self.clock.now().as_second(), claims["exp"].as_i64().unwrap_or_default());
        anyhow::ensure!(now < exp && exp <= now + 300, "an assertion is short-lived");
        anyhow::ensure!(get("client_id") == CLIENT_ID, "another client");
        let id = claims["jti"].as_str().context("no jti")?.to_owned();
        anyhow::ensure!(self.assertions.insert(id), "the assertion was used before");
        Ok(())
    }

    fn id_token(&self, nonce: &str, fault: Fault) -> Result<String> {
        let now = self.clock.now().as_second();
        let mut claims = json!({
            "iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": nonce,
        });
        let claims = claims.as_object_mut().context("no object")?;
        claims.extend(self.user.clone());
        if let Fault::Claims(change) = fault {
            change(claims);
        }
        claims.retain(|_, value| !value.is_null());
        let claims = Value::Object(claims.clone());
        match fault {
            Fault::AlgorithmNone => {
                let header = encode(r#"{"alg":"none","typ":"JWT"}"#);
                Ok(format!("{header}.{}.", encode(claims.to_string())))
            }
            Fault::Hs256 => {
                let mut header = Header::new(Algorithm::HS256);
                header.kid = self.key.jwk["kid"].as_str().map(str::to_owned);
                Ok(jsonwebtoken::encode(&header, &claims, &EncodingKey::from_secret(CLIENT_SECRET.as_bytes()))?)
            }
            Fault::UnpublishedKey => SigningKey::draw("first")?.sign("JWT", &claims),
            _ => self.unpublished.as_ref().unwrap_or(&self.key).sign("JWT", &claims),
        }
    }
}

async fn user_info(State(provider): State<Provider>, headers: HeaderMap) -> Response {
    if let Some(response) = broken(provider.count()).await {
        return response;
    }
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if authorization != Some("Bearer an access token") {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let inner = provider.inner();
    let mut claims = Map::from_iter([("sub".to_owned(), inner.user.get("sub").cloned().unwrap_or_default())]);
    claims.extend(inner.user_info.clone());
    json_response(200, &Value::Object(claims))
}
