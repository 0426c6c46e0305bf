//! One function for each endpoint.

use reqwest::RequestBuilder;
use serde::de::DeserializeOwned;
use service_api::{
    endpoints::{self, Endpoint},
    ids::OtpId,
    oauth::{OTP_GRANT, TokenRequest, TokenResponse},
    page::Page,
    projects::Project,
    sign_in::{LoginOptions, LoginOptionsRequest, OtpRequest, OtpRequested},
    token::{AccessToken, OtpCode},
    whoami::Whoami,
};

use crate::Error;

/// A service at one address.
#[derive(Clone, Debug)]
pub struct Client {
    base_url: String,
    http: reqwest::Client,
}

impl Client {
    /// `base_url` has no trailing slash. Redirects are not followed: a token goes where it was meant to go.
    pub fn new(base_url: &str) -> Result<Self, Error> {
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
        Ok(Self { base_url: base_url.trim_end_matches('/').to_owned(), http })
    }

    pub async fn login_options(&self, email: &str) -> Result<LoginOptions, Error> {
        let body = LoginOptionsRequest { email: email.to_owned() };
        answer(self.request(&endpoints::LOGIN_OPTIONS).json(&body)).await
    }

    /// Has a code sent to the address.
    pub async fn request_otp(&self, email: &str) -> Result<OtpRequested, Error> {
        let body = OtpRequest { email: email.to_owned(), client_id: None };
        answer(self.request(&endpoints::OTP_TOKENS).json(&body)).await
    }

    /// Exchanges the code for tokens.
    pub async fn exchange_otp(&self, otp_id: OtpId, code: OtpCode, scope: &str) -> Result<TokenResponse, Error> {
        let body = TokenRequest {
            grant_type: Some(OTP_GRANT.to_owned()),
            otp_id: Some(otp_id.to_string()),
            code: Some(code),
            scope: Some(scope.to_owned()),
            ..TokenRequest::default()
        };
        answer(self.request(&endpoints::TOKEN).json(&body)).await
    }

    pub async fn whoami(&self, token: &AccessToken) -> Result<Whoami, Error> {
        answer(self.request(&endpoints::WHOAMI).bearer_auth(token.expose())).await
    }

    pub async fn list_projects(&self, token: &AccessToken, cursor: Option<&str>) -> Result<Page<Project>, Error> {
        let request = self.request(&endpoints::LIST_PROJECTS).bearer_auth(token.expose());
        answer(request.query(&cursor.map(|cursor| [("cursor", cursor)]))).await
    }

    fn request(&self, endpoint: &Endpoint) -> RequestBuilder {
        let url = format!("{}{}", self.base_url, endpoint.path);
        match endpoint.method {
            endpoints::Method::Get => self.http.get(url),
            endpoints::Method::Post => self.http.post(url),
        }
    }
}

async fn answer<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, Error> {
    let response = request.send().await?;
    let status = response.status().as_u16();
    let bytes = response.bytes().await?;
    if (200..300).contains(&status) {
        return serde_json::from_slice(&bytes).map_err(|_| Error::Unexpected(status));
    }
    Err(serde_json::from_slice(&bytes).map_or(Error::Unexpected(status), |body| Error::Refused(status, body)))
}
