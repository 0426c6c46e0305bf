//! OAuth and discovery.

use serde_json::Value;
use service_api::{
    JsonObject,
    endpoints::{self, Operation},
    ids::OtpId,
    oauth::{AboutToken, CODE_GRANT, Introspection, OTP_GRANT, REFRESH_GRANT, TokenRequest, TokenResponse},
    token::{AccessToken, CodeVerifier, DeviceSecret, OtpCode, PresentedToken, RefreshToken, Token, TokenKind},
};

use crate::{Client, Error};

/// A one-time code as a user typed it, and the id of the request that it was sent for.
pub struct EnteredCode {
    /// The ID that [`Client::request_otp`] returned.
    pub otp_id: OtpId,
    /// The code that the user received by email.
    pub code: OtpCode,
}

/// OAuth and discovery.
///
/// # Errors
/// [`Error::Refused`] with `invalid_grant` if a code or token is wrong, used, expired or revoked, with `invalid_client` if the
/// client is unknown or fails to authenticate, with `rate_limited` after too many attempts.
impl Client {
    /// Exchanges a one-time code for tokens. `device` is the device secret that an earlier sign-in returned. If the response has
    /// a new one, keep that instead.
    pub async fn exchange_otp(
        &self,
        client_id: &str,
        entered: EnteredCode,
        scope: &str,
        device: Option<&DeviceSecret>,
    ) -> Result<TokenResponse, Error> {
        let body = TokenRequest {
            grant_type: Some(OTP_GRANT.to_owned()),
            client_id: Some(client_id.to_owned()),
            otp_id: Some(entered.otp_id.to_string()),
            code: Some(entered.code),
            scope: Some(scope.to_owned()),
            device: device.map(|secret| PresentedToken::new(secret.expose().to_owned())),
            ..TokenRequest::default()
        };
        self.call_with(&endpoints::TOKEN, &[], &body).send().await
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
        self.call_with(&endpoints::TOKEN, &[], &body).send().await
    }

    /// Exchanges a refresh token for new tokens. It is retried with the same token, for which the service returns the same
    /// successor.
    pub async fn refresh(&self, client_id: &str, refresh_token: &RefreshToken) -> Result<TokenResponse, Error> {
        let body = TokenRequest {
            grant_type: Some(REFRESH_GRANT.to_owned()),
            client_id: Some(client_id.to_owned()),
            refresh_token: Some(PresentedToken::new(refresh_token.expose().to_owned())),
            ..TokenRequest::default()
        };
        self.call_with(&endpoints::TOKEN, &[], &body).repeatable().send().await
    }

    /// Signs out: revokes the session that the refresh token belongs to.
    pub async fn revoke<K: TokenKind>(&self, client_id: &str, refresh_token: &Token<K>) -> Result<(), Error> {
        self.revoke_token(client_id, refresh_token.expose()).await
    }

    /// Signs out: revokes the session that the access token belongs to, which must not have expired.
    pub async fn revoke_access(&self, client_id: &str, access_token: &AccessToken) -> Result<(), Error> {
        self.revoke_token(client_id, access_token.expose()).await
    }

    async fn revoke_token(&self, client_id: &str, token: &str) -> Result<(), Error> {
        let body = AboutToken {
            token: Some(PresentedToken::new(token.to_owned())),
            client_id: Some(client_id.to_owned()),
            ..AboutToken::default()
        };
        self.call_with(&endpoints::REVOKE, &[], &body).repeatable().send().await
    }

    /// Introspects a token (RFC 7662). `about` has the secret or the assertion of a client that may do so.
    pub async fn introspect(&self, about: &AboutToken) -> Result<Introspection, Error> {
        self.call_with(&endpoints::INTROSPECT, &[], about).repeatable().send().await
    }

    /// Registers a client (RFC 7591). The same metadata gives the same client.
    pub async fn register(&self, metadata: &JsonObject) -> Result<Value, Error> {
        self.call_with(&endpoints::REGISTER, &[], metadata).repeatable().send().await
    }

    /// Gets the authorization server metadata (RFC 8414).
    pub async fn server_metadata(&self) -> Result<Value, Error> {
        self.document(&endpoints::SERVER_METADATA).await
    }

    /// Gets the protected resource metadata (RFC 9728): of the service, of the API, and of MCP.
    pub async fn resource_metadata(&self) -> Result<[Value; 3], Error> {
        Ok([
            self.document(&endpoints::RESOURCE_METADATA).await?,
            self.document(&endpoints::API_METADATA).await?,
            self.document(&endpoints::MCP_METADATA).await?,
        ])
    }

    /// Gets the public keys of access tokens (RFC 7517).
    pub async fn jwks(&self) -> Result<Value, Error> {
        self.document(&endpoints::JWKS).await
    }

    /// Gets the pages where users create and manage passkeys. Fails with `not_found` if the service is reached by an IP address.
    pub async fn passkey_endpoints(&self) -> Result<Value, Error> {
        self.document(&endpoints::PASSKEY_ENDPOINTS).await
    }

    /// Gets the `OpenAPI` document.
    pub async fn openapi(&self) -> Result<Value, Error> {
        self.document(&endpoints::OPENAPI).await
    }

    async fn document(&self, operation: &Operation<(), Value>) -> Result<Value, Error> {
        self.call(operation, &[]).send().await
    }
}
