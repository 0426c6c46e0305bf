//! Which ways an address has to sign in (`POST /v1/login-options`).
//!
//! 1. Bring the address into its one spelling.
//! 2. Count the question against the asker's network.
//! 3. Answer from the domain only: whether the address has an account plays no part, so nobody can find out.

use service_api::{
    endpoints,
    sign_in::{LoginMethod, LoginOptions},
};
use service_rules::{
    email::{Address, NotAnAddress},
    limits::Limited,
};

use crate::{
    app::App,
    failure::Failure,
    flows::{
        Asker,
        limit::{Limit, network_of},
    },
};

#[derive(Debug)]
pub enum Refusal {
    NotAnAddress,
    Limited(Limited),
}

pub async fn login_options(app: &App, asker: &Asker, email: &str) -> Result<LoginOptions, Failure<Refusal>> {
    let now = app.clock.now();
    let address = Address::parse(email).map_err(|NotAnAddress| Failure::Refused(Refusal::NotAnAddress))?;

    let db = app.database.connect().await?;
    let network = network_of(asker.address);
    let limit = Limit { policy: "login-options-network", whom: network.as_bytes() };
    let rate = app.config.limits.login_options_per_network;
    if let Some(limited) = limit.take_at_rate(app, &db, rate, now).await? {
        return Err(Failure::Refused(Refusal::Limited(limited)));
    }

    Ok(LoginOptions { methods: methods_of(app, address.domain()) })
}

/// Every domain signs in by code or in a browser until one has connected its own sign-on.
fn methods_of(app: &App, _domain: &str) -> Vec<LoginMethod> {
    let authorize_url = format!("{}{}", app.config.base_url, endpoints::AUTHORIZE.path);
    vec![LoginMethod::Otp, LoginMethod::Browser { authorize_url }]
}
