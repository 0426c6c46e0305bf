//! The users of the drill `grow`, and how they send requests.

use anyhow::{Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use service_api::oauth::OTP_GRANT;
use service_testkit::authenticator::TestAuthenticator;
use service_testkit::leaks::Leaks;
use service_testkit::mailbox::Mailbox;
use service_testkit::response::{TestClient, TestResponse};
use service_testkit::server::{SignedIn, request_code, signed_in};

/// The redirect URI of the app.
pub(super) const CALLBACK: &str = "https://app.test/cb";

/// A passkey that was added on one of the days.
pub(super) struct PasskeyOfDays {
    pub(super) authenticator: TestAuthenticator,
    pub(super) added_on: u32,
}

/// The users, and the app that they use every day.
pub(super) struct UsersOfDays {
    pub(super) http: TestClient,
    pub(super) mailbox: Mailbox,
    pub(super) app: Option<String>,
    pub(super) passkey: Option<PasskeyOfDays>,
}

impl UsersOfDays {
    pub(super) fn new(http: TestClient, mailbox: Mailbox) -> Self {
        Self { http, mailbox, app: None, passkey: None }
    }

    /// Signs in on a device that is not known.
    pub(super) async fn sign_in(&self, email: &str) -> Result<SignedIn> {
        let (otp_id, code) = request_code(&self.http, &self.mailbox, &Leaks::default(), email).await?;
        let body = json!({ "grant_type": OTP_GRANT, "otp_id": otp_id, "code": code, "scope": "read write" });
        signed_in(&self.http.post("/oauth/token", &body).await?)
    }

    /// Sends a request that must succeed.
    pub(super) async fn send(
        &self,
        user: &SignedIn,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<TestResponse> {
        let request = self.http.request(method, path).bearer_auth(&user.access_token);
        let response = self.http.send(body.iter().fold(request, reqwest::RequestBuilder::json)).await?;
        ensure!(response.status.is_success(), "{path}: {} {}", response.status, response.text);
        Ok(response)
    }

    /// Creates something; returns its id.
    pub(super) async fn create(&self, user: &SignedIn, path: &str, body: Value) -> Result<String> {
        Ok(self.send(user, Method::POST, path, Some(body)).await?.field("id").to_owned())
    }

    pub(super) async fn delete(&self, user: &SignedIn, path: &str) -> Result<()> {
        self.send(user, Method::DELETE, path, None).await.map(drop)
    }

    pub(super) async fn register_app(&self) -> Result<String> {
        let metadata = json!({ "client_name": "Editor", "redirect_uris": [CALLBACK] });
        Ok(self.http.post("/oauth/register", &metadata).await?.field("client_id").to_owned())
    }
}
