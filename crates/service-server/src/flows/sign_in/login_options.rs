//! Lists the ways to sign in with an email address (`POST /v1/login-options`).
//!
//! 1. Normalize the address.
//! 2. Count the request: against the device if the address signed in on it before, else against the caller's network.
//! 3. Choose the methods by the domain only: one row by primary key, whether the domain has one or not. The response does not
//!    depend on whether the address has an account, so an attacker cannot find out.

use service_api::{
    endpoints,
    sign_in::{LoginMethod, LoginOptions, LoginOptionsRequest},
};
use service_rules::{
    email::{Address, InvalidAddress},
    limits::Limited,
};

use crate::{
    app::App,
    database,
    flows::{
        RequestMeta,
        rate_limit::Limit,
        sign_in::{address_limits, devices},
        sso::routes,
    },
    store::routed_domains::Route,
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

pub async fn login_options(
    app: &App,
    meta: &RequestMeta,
    request: &LoginOptionsRequest,
) -> Result<LoginOptions, LoginOptionsError> {
    let now = app.clock.now();
    let address = Address::parse(&request.email)?;

    let db = app.database.connect().await?;
    let rates = app.config.limits.login_options_per_network;
    let limited = if let Some(device) = devices::find(app, &db, request.device.as_ref(), &address, now).await? {
        let limit = Limit { policy: "login-options-device", whom: &device };
        limit.take_at_rate(app, &db, rates.narrowest(), now).await?
    } else {
        address_limits::login_options_from(&app.config.limits, meta.address).take(app, &db, now).await?
    };
    if let Some(limited) = limited {
        return Err(limited.into());
    }

    let route = routes::find_in(app, &db, &address).await?;
    Ok(LoginOptions { methods: methods_of(app, route) })
}

/// The methods of a domain: its single sign-on, and the others unless it is required.
fn methods_of(app: &App, route: Option<Route>) -> Vec<LoginMethod> {
    let base_url = &app.config.base_url;
    let authorize_url = format!("{base_url}{}", endpoints::AUTHORIZE.path);
    let mut methods = vec![LoginMethod::Otp, LoginMethod::Browser { authorize_url }];
    if let Some(Route { connection_id, name: display_name, required, .. }) = route {
        let authorize_url = format!("{base_url}{}?connection={connection_id}", endpoints::SSO_START.path);
        methods.retain(|_| !required);
        methods.insert(0, LoginMethod::Sso { connection_id, display_name, authorize_url, required });
    }
    methods
}
