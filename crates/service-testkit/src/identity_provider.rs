//! An identity provider on this machine: a web server with a response for each path, and a key that signs tokens.
//!
//! It is what a test makes of it, so that it can also do what real providers never should.

use std::{
    collections::HashMap,
    net::{SocketAddr, TcpListener as StdListener},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context as _, Result, anyhow};
use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::document_host::{Certificate, acceptor, response};

/// The path of the discovery document.
pub const DISCOVERY: &str = "/.well-known/openid-configuration";
/// The path of the key set.
pub const KEYS: &str = "/jwks";
/// The path of the token endpoint.
pub const TOKEN: &str = "/token";
/// The path of the userinfo endpoint.
pub const USER_INFO: &str = "/userinfo";

/// A provider whose address is known and which does not run yet. Settings of a server can name it already.
pub struct UnstartedProvider {
    listener: StdListener,
    address: SocketAddr,
}

/// A provider that runs.
pub struct IdentityProvider {
    pub issuer: String,
    state: Arc<Mutex<ProviderState>>,
}

struct ProviderState {
    answers: HashMap<String, Answer>,
    /// Every request, head and body.
    received: Vec<String>,
    connections: usize,
    is_down: bool,
    key: ProviderKey,
    keys_made: usize,
}

#[derive(Clone)]
enum Answer {
    Bytes(Vec<u8>),
    /// The connection stays open and silent.
    Never,
}

/// A P-256 key with its id.
pub struct ProviderKey {
    pub id: String,
    pair: EcdsaKeyPair,
}

impl ProviderKey {
    pub fn generate(id: &str) -> Result<Self> {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(|_| anyhow!("no key"))?;
        Ok(Self { id: id.to_owned(), pair })
    }

    /// The public key, as a provider publishes it.
    #[must_use]
    pub fn public(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let (x, y) = (encode(&point[1..33]), encode(&point[33..65]));
        json!({ "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.id, "x": x, "y": y })
    }

    /// Signs a token with this header and these claims.
    pub fn sign_with(&self, header: &Value, claims: &Value) -> Result<String> {
        let message = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let signature = self.pair.sign(&SystemRandom::new(), message.as_bytes());
        Ok(format!("{message}.{}", encode(signature.map_err(|_| anyhow!("not signed"))?)))
    }

    /// Signs a token with these claims.
    pub fn sign(&self, claims: &Value) -> Result<String> {
        self.sign_with(&json!({ "alg": "ES256", "kid": self.id, "typ": "JWT" }), claims)
    }
}

pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

impl UnstartedProvider {
    pub fn new() -> Result<Self> {
        Self::at("127.0.0.1")
    }

    /// A provider at another address of this machine.
    pub fn at(address: &str) -> Result<Self> {
        let listener = StdListener::bind((address, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// The issuer without TLS.
    #[must_use]
    pub fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The issuer with TLS.
    #[must_use]
    pub fn https_issuer(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Starts the provider, with TLS if it has a certificate. It publishes a discovery document and one key.
    pub fn start(self, cert: Option<&Certificate>) -> Result<IdentityProvider> {
        let issuer = if cert.is_some() { self.https_issuer() } else { self.issuer() };
        let state = Arc::new(Mutex::new(ProviderState {
            answers: HashMap::new(),
            received: Vec::new(),
            connections: 0,
            is_down: false,
            key: ProviderKey::generate("key-1")?,
            keys_made: 1,
        }));
        let provider = IdentityProvider { issuer, state: state.clone() };
        provider.publish(DISCOVERY, &provider.discovery());
        provider.publish(KEYS, &json!({ "keys": [provider.state().key.public()] }));
        let tls = cert.map(acceptor).transpose()?;
        let listener = TcpListener::from_std(self.listener)?;
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (state, tls) = (state.clone(), tls.clone());
                lock(&state).connections += 1;
                if lock(&state).is_down {
                    continue;
                }
                tokio::spawn(async move {
                    match tls {
                        Some(tls) => answer(tls.accept(stream).await?, &state).await,
                        None => answer(stream, &state).await,
                    }
                });
            }
        });
        Ok(provider)
    }
}

impl IdentityProvider {
    /// A discovery document with everything that a provider usually has.
    #[must_use]
    pub fn discovery(&self) -> Value {
        let at = |path| format!("{}{path}", self.issuer);
        json!({
            "issuer": self.issuer,
            "authorization_endpoint": at("/authorize"),
            "token_endpoint": at(TOKEN),
            "userinfo_endpoint": at(USER_INFO),
            "jwks_uri": at(KEYS),
            "id_token_signing_alg_values_supported": ["ES256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "private_key_jwt"],
            "token_endpoint_auth_signing_alg_values_supported": ["ES256"],
            "authorization_response_iss_parameter_supported": true,
            "backchannel_logout_supported": true,
        })
    }

    /// Answers this path with a JSON document from now on.
    pub fn publish(&self, path: &str, document: &Value) {
        self.answer(path, response("200 OK", "Content-Type: application/json\r\n", &document.to_string()));
    }

    /// Answers this path with this whole response from now on.
    pub fn answer(&self, path: &str, bytes: Vec<u8>) {
        self.state().answers.insert(path.to_owned(), Answer::Bytes(bytes));
    }

    /// Accepts connections for this path from now on, and never answers.
    pub fn fall_silent(&self, path: &str) {
        self.state().answers.insert(path.to_owned(), Answer::Never);
    }

    /// Closes every connection at once, or no longer.
    pub fn set_down(&self, is_down: bool) {
        self.state().is_down = is_down;
    }

    /// Replaces the key, and publishes only the new one.
    pub fn rotate_key(&self) -> Result<()> {
        let mut state = self.state();
        state.keys_made += 1;
        state.key = ProviderKey::generate(&format!("key-{}", state.keys_made))?;
        let public = state.key.public();
        drop(state);
        self.publish(KEYS, &json!({ "keys": [public] }));
        Ok(())
    }

    /// The public key.
    #[must_use]
    pub fn public_key(&self) -> Value {
        self.state().key.public()
    }

    /// Signs a token with the key of this provider.
    pub fn sign(&self, claims: &Value) -> Result<String> {
        self.state().key.sign(claims)
    }

    /// Signs a token with the key of this provider, and any header.
    pub fn sign_with(&self, header: &Value, claims: &Value) -> Result<String> {
        self.state().key.sign_with(header, claims)
    }

    /// How often a path was requested.
    #[must_use]
    pub fn asked(&self, path: &str) -> usize {
        self.received(path).len()
    }

    /// All requests for a path, head and body.
    #[must_use]
    pub fn received(&self, path: &str) -> Vec<String> {
        let is_for = |request: &&String| request.split([' ', '?']).nth(1) == Some(path);
        self.state().received.iter().filter(is_for).cloned().collect()
    }

    /// How many connections were opened.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state().connections
    }

    fn state(&self) -> MutexGuard<'_, ProviderState> {
        lock(&self.state)
    }
}

fn lock(state: &Mutex<ProviderState>) -> MutexGuard<'_, ProviderState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads one request and answers it.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, state: &Mutex<ProviderState>) -> Result<()> {
    let request = read_request(&mut stream).await?;
    let path = request.split([' ', '?']).nth(1).context("no path")?.to_owned();
    let answer = {
        let mut state = lock(state);
        state.received.push(request);
        state.answers.get(&path).cloned()
    };
    match answer {
        Some(Answer::Never) => std::future::pending().await,
        Some(Answer::Bytes(bytes)) => stream.write_all(&bytes).await?,
        None => stream.write_all(&response("404 Not Found", "", "")).await?,
    }
    Ok(stream.shutdown().await?)
}

async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Result<String> {
    let mut bytes = Vec::new();
    loop {
        anyhow::ensure!(stream.read_buf(&mut bytes).await? > 0, "no whole request");
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return Ok(text.into_owned());
        }
    }
}
