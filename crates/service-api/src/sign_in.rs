//! Signing in by email: the sign-in methods of an address, and requesting a code.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ids::{ConnectionId, OtpId},
    token::PresentedToken,
};

/// `POST /v1/login-options`
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginOptionsRequest {
    /// The email address of the user.
    #[schemars(email)]
    pub email: String,
    /// The device secret of an earlier sign-in, which has its own rate limit. An unknown one, or one of another address, has
    /// no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<PresentedToken>,
}

/// The sign-in methods of an email address, preferred first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct LoginOptions {
    /// The sign-in methods, preferred first.
    pub methods: Vec<LoginMethod>,
}

/// A sign-in method. More will be added; ignore unknown ones.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LoginMethod {
    /// A one-time code, sent to the address.
    Otp,
    /// The authorization code grant with PKCE, in a browser.
    #[serde(rename_all = "camelCase")]
    Browser {
        /// Where the sign-in begins: the authorization endpoint.
        authorize_url: String,
    },
    /// The company's identity provider, in a browser.
    #[serde(rename_all = "camelCase")]
    Sso {
        /// The ID of the connection.
        connection_id: ConnectionId,
        /// What the company calls its sign-in.
        display_name: String,
        /// Where the sign-in begins. It takes the parameters of the authorization endpoint.
        authorize_url: String,
        /// Whether this is the only way to sign in.
        required: bool,
    },
}

/// `POST /v1/otp-tokens`
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OtpRequest {
    /// The email address that the code is sent to.
    #[schemars(email)]
    pub email: String,
    /// The only client that can redeem the code. Default: any first-party client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The device secret of an earlier sign-in, which has its own rate limits. An unknown one, or one of another address, has
    /// no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<PresentedToken>,
}

/// A code that was requested.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OtpRequested {
    /// The ID to send as `otp_id` with the code.
    pub otp_id: OtpId,
    /// Seconds until the code expires.
    pub expires_in: i64,
    /// Seconds until another code can be requested.
    pub resend_after: i64,
    /// The number of digits of the code.
    pub code_length: usize,
}
