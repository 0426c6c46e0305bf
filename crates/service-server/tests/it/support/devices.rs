//! A caller with a network and a device of its own.

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};
use service_api::oauth::OTP_GRANT;
use service_server::config::SETTINGS;
use service_testkit::{
    response::TestResponse,
    server::{Setup, TestServer, signed_in},
};

/// A server with the limits that it has unless it is told otherwise, which believes what tests forward.
pub(crate) fn with_default_limits() -> Setup {
    let limits = SETTINGS.iter().filter(|setting| setting.key.starts_with("limits."));
    let given = limits.filter_map(|setting| Some((setting.key, setting.default?)));
    let setup = given.fold(Setup::default(), |setup, (key, default)| setup.set(key, default));
    setup.set("http.trusted_proxies", "127.0.0.1/32")
}

/// A caller with an address of its own, and a device secret if it has one.
#[derive(Clone)]
pub(crate) struct Caller<'a> {
    pub(crate) server: &'a TestServer,
    pub(crate) address: String,
    pub(crate) device: Option<String>,
}

impl<'a> Caller<'a> {
    pub(crate) fn at(server: &'a TestServer, address: &str) -> Self {
        Self { server, address: address.to_owned(), device: None }
    }

    pub(crate) async fn post(&self, path: &str, mut body: Value) -> Result<TestResponse> {
        if let Some(device) = &self.device {
            body["device"] = json!(device);
        }
        let request = self.server.http.request(Method::POST, path).header("X-Forwarded-For", &self.address);
        self.server.http.send(request.json(&body)).await
    }

    pub(crate) async fn ask(&self, email: &str) -> Result<TestResponse> {
        self.post("/v1/otp-tokens", json!({ "email": email })).await
    }

    /// Asks for a code, and reads it in the mail.
    pub(crate) async fn get_code(&self, email: &str) -> Result<(String, String)> {
        let asked = self.ask(email).await?;
        anyhow::ensure!(asked.status == 201, "no code was sent: {}", asked.text);
        let code = self.server.mailbox.next_code_to(email).await?;
        self.server.leaks.register("otp code", &code);
        Ok((asked.field("otpId").to_owned(), code))
    }

    pub(crate) async fn enter(&self, otp_id: &str, code: &str) -> Result<TestResponse> {
        self.post("/oauth/token", json!({ "grant_type": OTP_GRANT, "otp_id": otp_id, "code": code })).await
    }

    /// Signs in at the first try, and keeps the device secret if there is a new one.
    pub(crate) async fn sign_in(&mut self, email: &str) -> Result<TestResponse> {
        let (otp_id, code) = self.get_code(email).await?;
        let entered = self.enter(&otp_id, &code).await?;
        signed_in(&entered)?;
        self.device = entered.body["device"].as_str().map(str::to_owned).or(self.device.take());
        Ok(entered)
    }
}
