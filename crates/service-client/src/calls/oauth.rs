//! `/oauth` and discovery.

use serde_json::Value;
use service_api::{
    endpoints::{self, Endpoint},
    ids::OtpId,
    oauth::{AboutToken, CODE_GRANT, Introspection, OTP_GRANT, REFRESH_GRANT, TokenRequest, TokenResponse},
    token::{AccessToken, CodeVerifier, OtpCode, PresentedToken, RefreshToken},
};

use crate::{Client, Error};

impl Client {
    /// Exchanges a code from the mail for tokens.
    pub async fn exchange_otp(
        &self,
        client_id: &str,
        otp_id: OtpId,
        code: OtpCode,
        scope: &str,
    ) -> Result<TokenResponse, Error> {
        let body = TokenRequest {
            grant_type: Some(OTP_GRANT.to_owned()),
            client_id: Some(client_id.to_owned()),
            otp_id: Some(otp_id.to_string()),
            code: Some(code),
            scope: Some(scope.to_owned()),
            ..TokenRequest::default()
        };
        self.call(&endpoints::TOKEN, &[]).json(&body).answer().await
    }

    /// Exchanges an authorization code for tokens.
    pub async fn exchange_code(
        &self,
        client_id: &str,
        code: OtpCode,
        verifier: CodeVerifier,
        redirect_uri: &str,
    ) -> Result<TokenResponse, Error> {
        let body = TokenRequest {
            grant_type: Some(CODE_GRANT.to_owned()),
            client_id: Some(client_id.to_owned()),
            code: Some(code),
            code_verifier: Some(verifier),
            redirect_uri: Some(redirect_uri.to_owned()),
            ..TokenRequest::default()
        };
        self.call(&endpoints::TOKEN, &[]).json(&body).answer().await
    }

    /// A new pair for a refresh token. If no answer comes, the same token is sent again: the service answers with the
    /// same successor.
    pub async fn refresh(&self, client_id: &str, refresh_token: &RefreshToken) -> Result<TokenResponse, Error> {
        let body = TokenRequest {
            grant_type: Some(REFRESH_GRANT.to_owned()),
            client_id: Some(client_id.to_owned()),
            refresh_token: Some(PresentedToken::new(refresh_token.expose().to_owned())),
            ..TokenRequest::default()
        };
        self.call(&endpoints::TOKEN, &[]).json(&body).repeatable().answer().await
    }

    /// Signs out: ends the session that the token belongs to.
    pub async fn revoke(&self, client_id: &str, refresh_token: &RefreshToken) -> Result<(), Error> {
        self.give_back(client_id, refresh_token.expose()).await
    }

    /// The same with the other token of the pair, while it lives.
    pub async fn revoke_access(&self, client_id: &str, access_token: &AccessToken) -> Result<(), Error> {
        self.give_back(client_id, access_token.expose()).await
    }

    async fn give_back(&self, client_id: &str, token: &str) -> Result<(), Error> {
        let body = AboutToken {
            token: Some(PresentedToken::new(token.to_owned())),
            client_id: Some(client_id.to_owned()),
            ..AboutToken::default()
        };
        self.call(&endpoints::REVOKE, &[]).json(&body).repeatable().done().await
    }

    /// What a token is worth now; for clients that prove themselves in `about`.
    pub async fn introspect(&self, about: &AboutToken) -> Result<Introspection, Error> {
        self.call(&endpoints::INTROSPECT, &[]).json(about).repeatable().answer().await
    }

    /// Registers a client (RFC 7591); registering the same again gives the same.
    pub async fn register(&self, metadata: &Value) -> Result<Value, Error> {
        self.call(&endpoints::REGISTER, &[]).json(metadata).repeatable().answer().await
    }

    /// What the service says of itself (RFC 8414).
    pub async fn server_metadata(&self) -> Result<Value, Error> {
        self.document(&endpoints::SERVER_METADATA).await
    }

    /// What it says of what it protects (RFC 9728): as a whole, the API, MCP.
    pub async fn resource_metadata(&self) -> Result<[Value; 3], Error> {
        Ok([
            self.document(&endpoints::RESOURCE_METADATA).await?,
            self.document(&endpoints::API_METADATA).await?,
            self.document(&endpoints::MCP_METADATA).await?,
        ])
    }

    /// The keys that access tokens are verified with.
    pub async fn jwks(&self) -> Result<Value, Error> {
        self.document(&endpoints::JWKS).await
    }

    /// The description of the API.
    pub async fn openapi(&self) -> Result<Value, Error> {
        self.document(&endpoints::OPENAPI).await
    }

    async fn document(&self, endpoint: &Endpoint) -> Result<Value, Error> {
        self.call(endpoint, &[]).answer().await
    }
}
