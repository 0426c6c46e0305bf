//! The limits on codes for an email address: how many are sent to it, and how many wrong ones are tried for it.

use std::net::IpAddr;

use service_rules::{
    Timestamp,
    email::Address,
    limits::{Limited, Window},
};

use crate::{
    app::App,
    config::LimitsConfig,
    database::{Connection, Error},
    flows::rate_limit::{Limit, NetworkLimit},
};

/// A limit over exact time windows.
pub(crate) struct WindowLimit<'a> {
    pub(crate) policy: &'static str,
    pub(crate) whom: Vec<u8>,
    pub(crate) windows: &'a [Window],
}

impl WindowLimit<'_> {
    pub(crate) const fn limit(&self) -> Limit<'_> {
        Limit { policy: self.policy, whom: self.whom.as_slice() }
    }

    /// Counts one request in every window. `Some`: a window had no room.
    pub(crate) async fn take(&self, app: &App, db: &Connection, now: Timestamp) -> Result<Option<Limited>, Error> {
        self.limit().take_in_windows(app, db, self.windows, now).await
    }
}

/// The limits on codes that are sent to an address for callers in a network who have no known device, from the narrowest.
pub(crate) fn sends<'a>(limits: &'a LimitsConfig, address: &Address, network: &str) -> [WindowLimit<'a>; 2] {
    let from_network = &limits.otp_sends_per_address_and_network;
    [
        of("otp-address-network", budget_key(address, network.as_bytes()), from_network),
        of("otp-address", budget_key(address, b""), &limits.otp_sends_per_address),
    ]
}

/// The limits on wrong codes for an address by callers in a network who have no known device, from the narrowest.
pub(crate) fn failures<'a>(limits: &'a LimitsConfig, address: &Address, network: &str) -> [WindowLimit<'a>; 2] {
    let from_network = &limits.otp_failures_per_address_and_network;
    [
        of("otp-failures-address-network", budget_key(address, network.as_bytes()), from_network),
        of("otp-failures-address", budget_key(address, b""), &limits.otp_failures_per_address),
    ]
}

pub(crate) fn of<'a>(policy: &'static str, whom: Vec<u8>, windows: &'a [Window]) -> WindowLimit<'a> {
    WindowLimit { policy, whom, windows }
}

/// The limit on codes that callers in the networks of an address request.
pub(crate) const fn sends_from(limits: &LimitsConfig, address: IpAddr) -> NetworkLimit {
    NetworkLimit { policy: "otp-network", address, rates: limits.otp_sends_per_network }
}

/// The limit on wrong codes that callers in the networks of an address try.
pub(crate) const fn failures_from(limits: &LimitsConfig, address: IpAddr) -> NetworkLimit {
    NetworkLimit { policy: "otp-failures-network", address, rates: limits.otp_failures_per_network }
}

/// The limit on questions how an address signs in, by callers in the networks of an address.
pub(crate) const fn login_options_from(limits: &LimitsConfig, address: IpAddr) -> NetworkLimit {
    NetworkLimit { policy: "login-options-network", address, rates: limits.login_options_per_network }
}

/// The key of a limit on an address together with something else about the caller. No address contains a line break.
pub(crate) fn budget_key(address: &Address, other: &[u8]) -> Vec<u8> {
    [address.as_str().as_bytes(), b"\n", other].concat()
}
