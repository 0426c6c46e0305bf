//! Signing in by e-mail, and who one is then.

use serde_json::Value;
use service_api::{
    endpoints,
    sign_in::{LoginOptionsRequest, OtpRequest, OtpRequested},
    token::AccessToken,
    whoami::Whoami,
};

use crate::{Client, Error};

impl Client {
    /// The ways an address has to sign in, as they came: types will be added, and unknown ones are to be passed over.
    pub async fn login_options(&self, email: &str) -> Result<Vec<Value>, Error> {
        let body = LoginOptionsRequest { email: email.to_owned() };
        let mut options: Value = self.call(&endpoints::LOGIN_OPTIONS, &[]).json(&body).repeatable().answer().await?;
        match options.get_mut("methods").map(Value::take) {
            Some(Value::Array(methods)) => Ok(methods),
            _ => Err(Error::Unexpected(200)),
        }
    }

    /// Has a code sent to the address. Not repeated: each is a mail.
    pub async fn request_otp(&self, email: &str, client_id: &str) -> Result<OtpRequested, Error> {
        let body = OtpRequest { email: email.to_owned(), client_id: Some(client_id.to_owned()) };
        self.call(&endpoints::OTP_TOKENS, &[]).json(&body).answer().await
    }

    pub async fn whoami(&self, token: &AccessToken, workspace: Option<&str>) -> Result<Whoami, Error> {
        self.call(&endpoints::WHOAMI, &[]).bearer(token).query(&[("workspaceId", workspace)]).answer().await
    }
}
