//! Lists the ways to sign in with an email address (`POST /v1/login-options`).
//!
//! 1. Normalize the address.
//! 2. Count the request against the caller's network.
//! 3. Choose the methods by the domain only. The response does not depend on whether the address has an account, so an
//!    attacker cannot find out.

use service_api::{
    endpoints,
    sign_in::{LoginMethod, LoginOptions},
};
use service_rules::{
    email::{Address, InvalidAddress},
    limits::Limited,
};

use crate::{
    app::App,
    database,
    flows::{RequestMeta, rate_limit::NetworkLimit},
};

/// Why the login options are not listed.
#[derive(Debug, thiserror::Error)]
pub enum LoginOptionsError {
    #[error(transparent)]
    InvalidAddress(#[from] InvalidAddress),
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

pub async fn login_options(app: &App, meta: &RequestMeta, email: &str) -> Result<LoginOptions, LoginOptionsError> {
    let now = app.clock.now();
    let address = Address::parse(email)?;

    let db = app.database.connect().await?;
    let rates = app.config.limits.login_options_per_network;
    let limit = NetworkLimit { policy: "login-options-network", address: meta.address, rates };
    if let Some(limited) = limit.take(app, &db, now).await? {
        return Err(limited.into());
    }

    Ok(LoginOptions { methods: methods_of(app, address.domain()) })
}

/// The methods of a domain. Every domain has the same ones until single sign-on exists.
fn methods_of(app: &App, _domain: &str) -> Vec<LoginMethod> {
    let authorize_url = format!("{}{}", app.config.base_url, endpoints::AUTHORIZE.path);
    vec![LoginMethod::Otp, LoginMethod::Browser { authorize_url }]
}
