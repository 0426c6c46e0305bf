//! Talking to a server under test: requests through real sockets, answers kept for the leak scanner.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use reqwest::{Client, Method, RequestBuilder, StatusCode, header::HeaderMap};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::leaks::Leaks;

/// The fields of answers that are secrets.
const SECRET_FIELDS: [&str; 2] = ["access_token", "refresh_token"];

/// A door to one server. Secrets it hands out are registered, refusals are remembered.
#[derive(Clone)]
pub struct Door {
    pub url: String,
    client: Client,
    leaks: Leaks,
    refusals: Arc<Mutex<Vec<u8>>>,
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
    /// The body as JSON; null if it is none.
    pub body: Value,
}

impl Door {
    pub fn new(url: String, leaks: Leaks) -> Result<Self> {
        let client = Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
        Ok(Self { url, client, leaks, refusals: Arc::default() })
    }

    /// A request to be completed by hand, then passed to [`Door::send`].
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url))
    }

    pub async fn send(&self, request: RequestBuilder) -> Result<Answer> {
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
        Ok(Answer { status, headers, text, body })
    }

    pub async fn get(&self, path: &str, token: Option<&str>) -> Result<Answer> {
        let request = self.request(Method::GET, path);
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        self.send(request).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    pub async fn post_form(&self, path: &str, form: &str) -> Result<Answer> {
        let request = self.request(Method::POST, path).header("content-type", "application/x-www-form-urlencoded");
        self.send(request.body(form.to_owned())).await
    }

    /// Sends bytes as they are, and reads until the server closes; for what no client library would send.
    pub async fn raw(&self, bytes: &[u8]) -> Result<String> {
        let mut stream = TcpStream::connect(self.url.trim_start_matches("http://")).await?;
        // A server that has heard enough may close before it has read all.
        drop(stream.write_all(bytes).await);
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer).await);
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Everything the server refused with so far.
    #[must_use]
    pub fn refusals(&self) -> Vec<u8> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Answer {
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The `error` of a refusal; empty if it has none.
    #[must_use]
    pub fn error(&self) -> &str {
        self.body["error"].as_str().unwrap_or_default()
    }

    /// A text field of the body; empty if there is none.
    #[must_use]
    pub fn field(&self, name: &str) -> &str {
        self.body[name].as_str().unwrap_or_default()
    }
}
