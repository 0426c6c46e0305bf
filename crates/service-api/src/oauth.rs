//! `POST /oauth/token`, `/oauth/revoke` and `/oauth/introspect`: what they ask for and what they answer (RFC 6749, 7009
//! and 7662 names throughout).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ids::{AccessTokenId, UserId, WorkspaceId},
    token::{
        AccessToken, ClientAssertion, ClientSecret, CodeVerifier, OtpCode, PresentedToken, Refresh, Token, TokenKind,
    },
};

/// The grant type by which an OTP id and its code are exchanged for tokens.
pub const OTP_GRANT: &str = "urn:service:params:oauth:grant-type:otp";
pub const CODE_GRANT: &str = "authorization_code";
pub const REFRESH_GRANT: &str = "refresh_token";

/// First-party clients, present from the first migration.
pub const SERVICE_WEB: &str = "service-web";
pub const SERVICE_CLI: &str = "service-cli";
pub const SERVICE_MCP: &str = "service-mcp";

/// Whether a client is one of ours.
#[must_use]
pub fn is_first_party(client_id: &str) -> bool {
    [SERVICE_WEB, SERVICE_CLI, SERVICE_MCP].contains(&client_id)
}

/// Everything a token request can carry; which of it is needed depends on `grant_type`.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TokenRequest {
    /// What is exchanged.
    #[schemars(required, extend("enum" = [OTP_GRANT, CODE_GRANT, REFRESH_GRANT]))]
    pub grant_type: Option<String>,
    /// The client; required but for a code by mail, where it is `service-cli` if left out.
    pub client_id: Option<String>,
    /// Of a client that has one.
    pub client_secret: Option<ClientSecret>,
    /// Words separated by spaces; for a code by mail `read` if left out, for a refresh fewer than the session has.
    pub scope: Option<String>,
    /// What the tokens are for; left out, what the session is for.
    pub resource: Option<String>,
    /// For a code by mail: the space that the tokens work in when a request names none.
    pub workspace_id: Option<String>,
    /// For a code by mail: from `/v1/otp-tokens`.
    pub otp_id: Option<String>,
    /// The code from the mail, or from the redirect.
    pub code: Option<OtpCode>,
    /// For a code from a redirect: where it came back to.
    pub redirect_uri: Option<String>,
    /// For a code from a redirect: what `code_challenge` is the digest of.
    pub code_verifier: Option<CodeVerifier>,
    /// Of a client that proves itself by signing.
    pub client_assertion: Option<ClientAssertion>,
    /// `urn:ietf:params:oauth:client-assertion-type:jwt-bearer`
    pub client_assertion_type: Option<String>,
    /// For a refresh: the youngest one there is.
    pub refresh_token: Option<PresentedToken>,
}

impl TokenRequest {
    /// A parameter without a value counts as left out (RFC 6749 section 3.2).
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
        self
    }

    /// Names of the parameters, for the parser that refuses a second one of each.
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
    ];
}

/// A pair of tokens (RFC 6749 section 5.1). Never stored on the way, never logged.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(bound = "")]
#[schemars(rename = "TokenResponse", bound = "")]
pub struct TokenResponse<K: TokenKind = Refresh> {
    pub access_token: AccessToken,
    pub token_type: TokenType,
    pub expires_in: i64,
    pub refresh_token: Token<K>,
    pub scope: String,
    /// The space the tokens work in when a request names none; absent: personal space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
}

impl<K: TokenKind> fmt::Debug for TokenResponse<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenResponse(…)")
    }
}

/// What `/oauth/revoke` and `/oauth/introspect` take: a token, and who asks about it.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct AboutToken {
    pub token: Option<PresentedToken>,
    /// Accepted and not needed: a token says itself what it is.
    pub token_type_hint: Option<String>,
    pub client_id: Option<String>,
    pub client_secret: Option<ClientSecret>,
    pub client_assertion: Option<ClientAssertion>,
    pub client_assertion_type: Option<String>,
}

impl AboutToken {
    /// A parameter without a value counts as left out.
    #[must_use]
    pub fn without_empty(mut self) -> Self {
        self.token.take_if(|token| token.expose().is_empty());
        self.client_id.take_if(|client_id| client_id.is_empty());
        self.client_assertion.take_if(|assertion| assertion.expose().is_empty());
        self.client_secret.take_if(|secret| secret.expose().is_empty());
        self
    }
}

/// What a token is worth at this moment (RFC 7662). One that is worth nothing has `active: false` and nothing else.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Introspection {
    pub active: bool,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub token: Option<IntrospectedToken>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct IntrospectedToken {
    pub token_type: IntrospectedKind,
    pub scope: String,
    pub client_id: String,
    pub sub: UserId,
    pub aud: String,
    pub iss: String,
    pub iat: i64,
    pub exp: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jti: Option<AccessTokenId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IntrospectedKind {
    #[serde(rename = "Bearer")]
    Bearer,
    RefreshToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TokenType {
    Bearer,
}
