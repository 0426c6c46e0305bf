//! Signing in by email, and the current user.

use serde_json::Value;
use service_api::{
    endpoints,
    sign_in::{LoginOptionsRequest, OtpRequest, OtpRequested},
    token::{AccessToken, DeviceSecret, PresentedToken},
    whoami::Whoami,
};

use crate::{Client, Error};

/// Signing in by email, and the current user.
///
/// # Errors
/// [`Error::Refused`] with `invalid_request` if the address is malformed, with `rate_limited` if a code was requested too often.
impl Client {
    /// Gets the sign-in methods of an email address as JSON, preferred first. More types will be added; ignore unknown ones.
    /// With the device secret of an earlier sign-in the request has its own rate limit.
    pub async fn login_options(&self, email: &str, device: Option<&DeviceSecret>) -> Result<Vec<Value>, Error> {
        let device = device.map(|secret| PresentedToken::new(secret.expose().to_owned()));
        let body = LoginOptionsRequest { email: email.to_owned(), device };
        let call = self.call_with(&endpoints::LOGIN_OPTIONS, &[], &body).repeatable();
        let mut options: Value = call.send_as().await?;
        match options.get_mut("methods").map(Value::take) {
            Some(Value::Array(methods)) => Ok(methods),
            _ => Err(Error::Unexpected(200)),
        }
    }

    /// Sends a one-time code to an email address. It is not retried, because each request sends an email. With the device
    /// secret of an earlier sign-in the request has its own rate limits.
    pub async fn request_otp(
        &self,
        email: &str,
        client_id: &str,
        device: Option<&DeviceSecret>,
    ) -> Result<OtpRequested, Error> {
        let device = device.map(|secret| PresentedToken::new(secret.expose().to_owned()));
        let body = OtpRequest { email: email.to_owned(), client_id: Some(client_id.to_owned()), device };
        self.call_with(&endpoints::OTP_TOKENS, &[], &body).send().await
    }

    /// Gets the user, credential and space of the token. `workspace` is a workspace's id, `personal`, or `None` for the default.
    pub async fn whoami(&self, token: &AccessToken, workspace: Option<&str>) -> Result<Whoami, Error> {
        self.call(&endpoints::WHOAMI, &[]).bearer(token).query(&[("workspaceId", workspace)]).send().await
    }
}
