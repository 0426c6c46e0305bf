//! Requests and responses of `/oauth/token`, `/oauth/revoke` and `/oauth/introspect` (RFC 6749, 7009 and 7662).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ids::{AccessTokenId, UserId, WorkspaceId},
    token::{
        AccessToken, ClientAssertion, ClientSecret, CodeVerifier, DeviceSecret, OtpCode, PresentedToken, Refresh,
        Token, TokenKind,
    },
};

/// The grant type that exchanges a one-time code for tokens.
pub const OTP_GRANT: &str = "urn:service:params:oauth:grant-type:otp";
/// The grant type that exchanges an authorization code for tokens.
pub const CODE_GRANT: &str = "authorization_code";
/// The grant type that exchanges a refresh token for new tokens.
pub const REFRESH_GRANT: &str = "refresh_token";

/// The first-party client of the web application.
pub const SERVICE_WEB: &str = "service-web";
/// The first-party client of the command line.
pub const SERVICE_CLI: &str = "service-cli";
/// The first-party client of MCP.
pub const SERVICE_MCP: &str = "service-mcp";

/// Whether a client is a first-party client.
#[must_use]
pub fn is_first_party(client_id: &str) -> bool {
    [SERVICE_WEB, SERVICE_CLI, SERVICE_MCP].contains(&client_id)
}

/// `POST /oauth/token`. Which parameters are required depends on `grant_type`.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TokenRequest {
    /// The grant type.
    #[schemars(required, extend("enum" = [OTP_GRANT, CODE_GRANT, REFRESH_GRANT]))]
    pub grant_type: Option<String>,
    /// The client. Required, except for a one-time code, where the default is `service-cli`.
    pub client_id: Option<String>,
    /// The secret of a confidential client.
    pub client_secret: Option<ClientSecret>,
    /// Scopes, separated by spaces. For a one-time code the default is `read`; for a refresh they narrow those of the session.
    pub scope: Option<String>,
    /// The resource that the tokens are for. Default: that of the session.
    pub resource: Option<String>,
    /// For a one-time code: the default space of the tokens.
    pub workspace_id: Option<String>,
    /// For a one-time code: the `otpId` from `/v1/otp-tokens`.
    pub otp_id: Option<String>,
    /// The one-time code from the email, or the authorization code from the redirect.
    pub code: Option<OtpCode>,
    /// For an authorization code: the redirect URI.
    pub redirect_uri: Option<String>,
    /// For an authorization code: the verifier whose digest is `code_challenge`.
    pub code_verifier: Option<CodeVerifier>,
    /// The signed assertion of a client that authenticates with a key.
    pub client_assertion: Option<ClientAssertion>,
    /// `urn:ietf:params:oauth:client-assertion-type:jwt-bearer`
    pub client_assertion_type: Option<String>,
    /// For a refresh: the newest refresh token.
    pub refresh_token: Option<PresentedToken>,
    /// For a one-time code: the device secret of an earlier sign-in, to keep using it.
    pub device: Option<PresentedToken>,
}

impl TokenRequest {
    /// Treats a parameter without a value as absent (RFC 6749 section 3.2).
    #[must_use]
    pub fn without_empty(mut self) -> Self {
        let plain = [
            &mut self.grant_type,
            &mut self.client_id,
            &mut self.scope,
            &mut self.resource,
            &mut self.workspace_id,
            &mut self.otp_id,
            &mut self.redirect_uri,
            &mut self.client_assertion_type,
        ];
        for parameter in plain {
            parameter.take_if(|value| value.is_empty());
        }
        self.client_secret.take_if(|secret| secret.expose().is_empty());
        self.code_verifier.take_if(|verifier| verifier.expose().is_empty());
        self.client_assertion.take_if(|assertion| assertion.expose().is_empty());
        self.code.take_if(|code| code.expose().is_empty());
        self.refresh_token.take_if(|token| token.expose().is_empty());
        self.device.take_if(|device| device.expose().is_empty());
        self
    }

    /// The names of the parameters.
    pub const PARAMETERS: &'static [&'static str] = &[
        "grant_type",
        "client_id",
        "client_secret",
        "scope",
        "resource",
        "workspace_id",
        "otp_id",
        "code",
        "redirect_uri",
        "code_verifier",
        "client_assertion",
        "client_assertion_type",
        "refresh_token",
        "device",
    ];
}

/// An access token and a refresh token (RFC 6749 section 5.1).
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(bound = "")]
#[schemars(rename = "TokenResponse", bound = "")]
pub struct TokenResponse<K: TokenKind = Refresh> {
    /// The access token. Treat it as opaque.
    pub access_token: AccessToken,
    /// How to send it: `Authorization: Bearer <access_token>`.
    pub token_type: TokenType,
    /// Seconds until the access token expires.
    pub expires_in: i64,
    /// The refresh token. Store it in place of the previous one, and protect it like a password.
    pub refresh_token: Token<K>,
    /// The granted scopes, separated by spaces.
    pub scope: String,
    /// The default space of the tokens. Absent: personal space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    /// After a one-time code: a new device secret. Keep it, also after signing out, and send it as `device` with the next
    /// request for a code. Absent if the one that was sent stays valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceSecret>,
}

impl<K: TokenKind> fmt::Debug for TokenResponse<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenResponse(…)")
    }
}

/// `POST /oauth/revoke` and `POST /oauth/introspect`: a token, and the authentication of the client.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct AboutToken {
    /// The token to revoke or to introspect.
    pub token: Option<PresentedToken>,
    /// Accepted and ignored: the kind of a token is known from its prefix.
    pub token_type_hint: Option<String>,
    /// The client that the token was issued to.
    pub client_id: Option<String>,
    /// The secret of a confidential client.
    pub client_secret: Option<ClientSecret>,
    /// The signed assertion of a client that authenticates with a key.
    pub client_assertion: Option<ClientAssertion>,
    /// `urn:ietf:params:oauth:client-assertion-type:jwt-bearer`
    pub client_assertion_type: Option<String>,
}

impl AboutToken {
    /// Treats a parameter without a value as absent (RFC 6749 section 3.2).
    #[must_use]
    pub fn without_empty(mut self) -> Self {
        self.token.take_if(|token| token.expose().is_empty());
        self.client_id.take_if(|client_id| client_id.is_empty());
        self.client_assertion.take_if(|assertion| assertion.expose().is_empty());
        self.client_secret.take_if(|secret| secret.expose().is_empty());
        self
    }
}

/// The state of a token (RFC 7662). A token that is not valid has `active: false` and no other field.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Introspection {
    /// Whether the token is valid now.
    pub active: bool,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub token: Option<IntrospectedToken>,
}

/// The claims of a valid token.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct IntrospectedToken {
    /// `Bearer` for an access token.
    pub token_type: IntrospectedKind,
    /// The scopes, separated by spaces.
    pub scope: String,
    /// The client that the token was issued to.
    pub client_id: String,
    /// The user.
    pub sub: UserId,
    /// The resource that the token is for.
    pub aud: String,
    /// The issuer: the base URL.
    pub iss: String,
    /// When the token was issued, in seconds since 1970.
    pub iat: i64,
    /// When the token expires, in seconds since 1970.
    pub exp: i64,
    /// The ID of an access token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jti: Option<AccessTokenId>,
    /// The default workspace of the token. Absent: personal space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
}

/// The kind of an introspected token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IntrospectedKind {
    #[serde(rename = "Bearer")]
    Bearer,
    RefreshToken,
}

/// How a token is sent (RFC 6750).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TokenType {
    Bearer,
}
