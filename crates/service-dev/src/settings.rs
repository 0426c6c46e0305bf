//! The settings of the development server. Its limits are high, because one person tries the same thing many times.

use anyhow::Result;
use service_testkit::{mailbox::Mailbox, settings::Settings};

use crate::addresses::Addresses;

/// Limits that would lock a developer out, as counts in a number of seconds.
const WINDOWS: [&str; 7] = [
    "limits.otp_sends_per_context",
    "limits.otp_sends_per_device",
    "limits.otp_sends_per_address_and_network",
    "limits.otp_sends_per_address",
    "limits.otp_failures_per_device",
    "limits.otp_failures_per_address_and_network",
    "limits.otp_failures_per_address",
];
const HIGH_WINDOW: &str = "100000/60";

/// Limits that would lock a developer out, as a burst and a number per hour.
const RATES: [&str; 15] = [
    "limits.otp_sends_per_network",
    "limits.otp_sends",
    "limits.otp_failures_per_network",
    "limits.otp_failures",
    "limits.login_options_per_network",
    "limits.leak_reports_per_network",
    "limits.tokens_per_user",
    "limits.browsers_per_network",
    "limits.logouts_per_network",
    "limits.registrations_per_network",
    "limits.requests_per_user",
    "limits.writes_per_user",
    "limits.searches_per_user",
    "limits.documents",
    "limits.domain_checks",
];
const HIGH_RATE: &str = "10000000+360000000";

/// Returns the settings of the development server, except its root key.
pub(crate) fn development(database_url: &str, mailbox: &Mailbox, addresses: &Addresses) -> Result<Settings> {
    let mut settings = Settings::complete(database_url, mailbox)?;
    for key in WINDOWS {
        settings.set(key, HIGH_WINDOW);
    }
    for key in RATES {
        settings.set(key, HIGH_RATE);
    }
    let listen = addresses.service().first().map(ToString::to_string).unwrap_or_default();
    settings.set("base_url", &addresses.base_url());
    settings.set("http.listen", &listen);
    settings.set("http.ops_listen", &addresses.ops().to_string());
    // A browser may hold connections open; nothing on this machine needs longer to finish.
    settings.set("http.drain_seconds", "2");
    settings.set("log.format", "text");
    Ok(settings)
}
