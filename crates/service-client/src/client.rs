//! One function for each endpoint.

use std::fmt::Display;

use reqwest::RequestBuilder;
use serde::de::DeserializeOwned;
use service_api::{
    cli_tokens::{CreateCliToken, CreatedCliToken, ListedCliToken, RotateCliToken},
    endpoints::{self, Endpoint},
    ids::{CliTokenId, GrantId, OtpId},
    leaks::{ReportReceived, TokenLeaks},
    mcp_tokens::{CreateMcpTokens, McpTokens, RefreshMcpTokens},
    oauth::{AboutToken, OTP_GRANT, REFRESH_GRANT, TokenRequest, TokenResponse},
    page::Page,
    projects::Project,
    sessions::{OthersEnded, Session},
    sign_in::{LoginOptions, LoginOptionsRequest, OtpRequest, OtpRequested},
    token::{AccessToken, OtpCode, PresentedToken, RefreshToken},
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

    /// A new pair for a refresh token. If no answer comes, ask again with the same token: nothing is lost.
    pub async fn refresh(&self, client_id: &str, refresh_token: &RefreshToken) -> Result<TokenResponse, Error> {
        let body = TokenRequest {
            grant_type: Some(REFRESH_GRANT.to_owned()),
            client_id: Some(client_id.to_owned()),
            refresh_token: Some(PresentedToken::new(refresh_token.expose().to_owned())),
            ..TokenRequest::default()
        };
        answer(self.request(&endpoints::TOKEN).json(&body)).await
    }

    /// Signs out: ends the session that the token belongs to.
    pub async fn revoke(&self, client_id: &str, refresh_token: &RefreshToken) -> Result<(), Error> {
        let body = AboutToken {
            token: Some(PresentedToken::new(refresh_token.expose().to_owned())),
            client_id: Some(client_id.to_owned()),
            ..AboutToken::default()
        };
        check(self.request(&endpoints::REVOKE).json(&body)).await.map(drop)
    }

    pub async fn list_sessions(&self, token: &AccessToken, cursor: Option<&str>) -> Result<Page<Session>, Error> {
        let request = self.request(&endpoints::LIST_SESSIONS).bearer_auth(token.expose());
        answer(request.query(&cursor.map(|cursor| [("cursor", cursor)]))).await
    }

    pub async fn end_session(&self, token: &AccessToken, id: GrantId) -> Result<(), Error> {
        check(self.request_at(&endpoints::END_SESSION, id).bearer_auth(token.expose())).await.map(drop)
    }

    /// Ends every session of the user but the one that the token belongs to.
    pub async fn end_other_sessions(&self, token: &AccessToken) -> Result<OthersEnded, Error> {
        answer(self.request(&endpoints::END_OTHER_SESSIONS).bearer_auth(token.expose())).await
    }

    /// Makes a token for automation; its secret is in this answer and never again.
    pub async fn create_cli_token(
        &self,
        token: &AccessToken,
        wanted: &CreateCliToken,
    ) -> Result<CreatedCliToken, Error> {
        answer(self.request(&endpoints::CREATE_CLI_TOKEN).bearer_auth(token.expose()).json(wanted)).await
    }

    pub async fn list_cli_tokens(
        &self,
        token: &AccessToken,
        cursor: Option<&str>,
    ) -> Result<Page<ListedCliToken>, Error> {
        let request = self.request(&endpoints::LIST_CLI_TOKENS).bearer_auth(token.expose());
        answer(request.query(&cursor.map(|cursor| [("cursor", cursor)]))).await
    }

    pub async fn revoke_cli_token(&self, token: &AccessToken, id: CliTokenId) -> Result<(), Error> {
        check(self.request_at(&endpoints::REVOKE_CLI_TOKEN, id).bearer_auth(token.expose())).await.map(drop)
    }

    pub async fn rotate_cli_token(
        &self,
        token: &AccessToken,
        id: CliTokenId,
        wanted: &RotateCliToken,
    ) -> Result<CreatedCliToken, Error> {
        answer(self.request_at(&endpoints::ROTATE_CLI_TOKEN, id).bearer_auth(token.expose()).json(wanted)).await
    }

    /// Makes the pair that the platform's own MCP client works with.
    pub async fn create_mcp_tokens(&self, token: &AccessToken, wanted: &CreateMcpTokens) -> Result<McpTokens, Error> {
        answer(self.request(&endpoints::CREATE_MCP_TOKENS).bearer_auth(token.expose()).json(wanted)).await
    }

    pub async fn refresh_mcp_tokens(
        &self,
        token: &AccessToken,
        refresh: &RefreshMcpTokens,
    ) -> Result<McpTokens, Error> {
        answer(self.request(&endpoints::REFRESH_MCP_TOKENS).bearer_auth(token.expose()).json(refresh)).await
    }

    /// Ends tokens that have leaked, whoever's they are.
    pub async fn report_leaks(&self, leaks: &TokenLeaks) -> Result<ReportReceived, Error> {
        answer(self.request(&endpoints::TOKEN_LEAKS).json(leaks)).await
    }

    pub async fn whoami(&self, token: &AccessToken) -> Result<Whoami, Error> {
        answer(self.request(&endpoints::WHOAMI).bearer_auth(token.expose())).await
    }

    pub async fn list_projects(&self, token: &AccessToken, cursor: Option<&str>) -> Result<Page<Project>, Error> {
        let request = self.request(&endpoints::LIST_PROJECTS).bearer_auth(token.expose());
        answer(request.query(&cursor.map(|cursor| [("cursor", cursor)]))).await
    }

    fn request(&self, endpoint: &Endpoint) -> RequestBuilder {
        self.request_to(endpoint, endpoint.path)
    }

    /// A request to an endpoint whose path has one segment that varies.
    fn request_at(&self, endpoint: &Endpoint, id: impl Display) -> RequestBuilder {
        let fill = |segment: &str| if segment.starts_with('{') { id.to_string() } else { segment.to_owned() };
        self.request_to(endpoint, &endpoint.path.split('/').map(fill).collect::<Vec<_>>().join("/"))
    }

    fn request_to(&self, endpoint: &Endpoint, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.base_url);
        match endpoint.method {
            endpoints::Method::Get => self.http.get(url),
            endpoints::Method::Post => self.http.post(url),
            endpoints::Method::Delete => self.http.delete(url),
            endpoints::Method::Patch => self.http.patch(url),
        }
    }
}

async fn answer<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, Error> {
    let (status, bytes) = check(request).await?;
    serde_json::from_slice(&bytes).map_err(|_| Error::Unexpected(status))
}

/// The status and body of an answer that is a success.
async fn check(request: RequestBuilder) -> Result<(u16, Vec<u8>), Error> {
    let response = request.send().await?;
    let status = response.status().as_u16();
    let bytes = response.bytes().await?;
    if (200..300).contains(&status) {
        return Ok((status, bytes.to_vec()));
    }
    Err(serde_json::from_slice(&bytes).map_or(Error::Unexpected(status), |body| Error::Refused(status, body)))
}
