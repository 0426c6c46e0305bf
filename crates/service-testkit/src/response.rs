//! A client for servers under test: sends requests through real sockets, and keeps responses for the leak scanner.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use reqwest::{Client, Method, RequestBuilder, StatusCode, header::HeaderMap};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::leaks::Leaks;

/// The response fields that hold secrets.
const SECRET_FIELDS: [&str; 3] = ["access_token", "refresh_token", "device"];

/// A client of one server. It registers secrets in responses, and keeps error responses.
#[derive(Clone)]
pub struct TestClient {
    pub url: String,
    client: Client,
    leaks: Leaks,
    refusals: Arc<Mutex<Vec<u8>>>,
}

#[derive(Clone, Debug)]
pub struct TestResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
    /// The body as JSON; null if it is not JSON.
    pub body: Value,
}

impl TestClient {
    pub fn new(url: String, leaks: Leaks) -> Result<Self> {
        // Servers under test speak HTTP without TLS, and reading the system's certificates takes long in a debug build.
        let client = Client::builder().redirect(reqwest::redirect::Policy::none()).tls_certs_only([]).build()?;
        Ok(Self { url, client, leaks, refusals: Arc::default() })
    }

    /// Returns a request to be completed, then passed to [`TestClient::send`].
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url))
    }

    pub async fn send(&self, request: RequestBuilder) -> Result<TestResponse> {
        let response = request.send().await.context("the server gave no answer")?;
        let (status, headers) = (response.status(), response.headers().clone());
        let text = response.text().await.context("the answer broke off")?;
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        for field in SECRET_FIELDS {
            if let Some(secret) = body[field].as_str() {
                self.leaks.register(field, secret);
            }
        }
        if !status.is_success() {
            let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            refusals.extend(format!("{headers:?}\n{text}\n").into_bytes());
        }
        Ok(TestResponse { status, headers, text, body })
    }

    pub async fn get(&self, path: &str, token: Option<&str>) -> Result<TestResponse> {
        let request = self.request(Method::GET, path);
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        self.send(request).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<TestResponse> {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    pub async fn post_form(&self, path: &str, form: &str) -> Result<TestResponse> {
        let request = self.request(Method::POST, path).header("content-type", "application/x-www-form-urlencoded");
        self.send(request.body(form.to_owned())).await
    }

    /// Sends raw bytes, and reads until the server closes; for requests that no client library would send.
    pub async fn raw(&self, bytes: &[u8]) -> Result<String> {
        let mut stream = TcpStream::connect(self.url.trim_start_matches("http://")).await?;
        // A server may close before it has read everything.
        drop(stream.write_all(bytes).await);
        let mut response = Vec::new();
        drop(stream.read_to_end(&mut response).await);
        Ok(String::from_utf8_lossy(&response).into_owned())
    }

    /// Returns all error responses so far.
    #[must_use]
    pub fn refusals(&self) -> Vec<u8> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl TestResponse {
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the `error` of an error response; empty if it has none.
    #[must_use]
    pub fn error(&self) -> &str {
        self.body["error"].as_str().unwrap_or_default()
    }

    /// Returns a text field of the body; empty if there is none.
    #[must_use]
    pub fn field(&self, name: &str) -> &str {
        self.body[name].as_str().unwrap_or_default()
    }
}
