//! Signing in by e-mail: which methods an address has, and asking for a code.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::OtpId;

/// `POST /v1/login-options`
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginOptionsRequest {
    #[schemars(email)]
    pub email: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct LoginOptions {
    pub methods: Vec<LoginMethod>,
}

/// One way to sign in, most fitting first.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LoginMethod {
    /// A code sent to the address.
    Otp,
    /// In a browser, by the code grant with PKCE.
    #[serde(rename_all = "camelCase")]
    Browser { authorize_url: String },
}

/// `POST /v1/otp-tokens`
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OtpRequest {
    #[schemars(email)]
    pub email: String,
    /// The only client that may redeem the code; absent: any first-party client may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OtpRequested {
    pub otp_id: OtpId,
    /// Seconds for which the code works.
    pub expires_in: i64,
    /// Seconds after which another code may be asked for.
    pub resend_after: i64,
    /// Digits of the code.
    pub code_length: usize,
}
