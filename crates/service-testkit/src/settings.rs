//! The settings of a server under test: complete, on random ports, with high limits unless a test sets them.

use anyhow::Result;
use aws_lc_rs::rand;
use base64::{Engine as _, prelude::BASE64_STANDARD};

use crate::mailbox::Mailbox;

/// The base URL of servers under test. Nothing listens there.
pub const BASE_URL: &str = "https://service.test";

/// Settings by name. The last value of a name wins.
#[derive(Clone, Debug, Default)]
pub struct Settings(Vec<(String, String)>);

impl Settings {
    /// Returns the settings that a server needs to run against this database and mailbox.
    pub fn complete(database_url: &str, mailbox: &Mailbox) -> Result<Self> {
        let smtp = mailbox.smtp_address();
        // The burst lasts longer than any request waits, so that one that waited is not refused after later ones.
        let roomy = "10000000+360000000";
        let mut settings = Self::default();
        for (key, value) in [
            ("base_url", BASE_URL),
            ("http.listen", "127.0.0.1:0"),
            ("http.ops_listen", "127.0.0.1:0"),
            ("http.lame_duck_seconds", "0"),
            ("database.url", database_url),
            // Longer than by default, because a busy machine answers late.
            ("database.deadline_seconds", "4"),
            ("secrets.root_keys", &format!("1:{}", Self::random_root_key()?)),
            ("mail.from", "Service <no-reply@service.test>"),
            ("mail.host", &smtp.ip().to_string()),
            ("mail.port", &smtp.port().to_string()),
            ("mail.tls", "none"),
            ("limits.otp_sends_per_context", "100000/60"),
            ("limits.otp_sends_per_device", "100000/60"),
            ("limits.otp_sends_per_address_and_network", "100000/60"),
            ("limits.otp_sends_per_address", "100000/60"),
            ("limits.otp_sends_per_network", roomy),
            ("limits.otp_sends", roomy),
            ("limits.login_options_per_network", roomy),
            ("limits.leak_reports_per_network", roomy),
            ("limits.tokens_per_user", roomy),
            ("limits.browsers_per_network", roomy),
            ("limits.logouts_per_network", roomy),
            ("limits.registrations_per_network", roomy),
            ("limits.documents", roomy),
            ("limits.domain_checks", roomy),
            ("limits.requests_per_user", roomy),
            ("limits.writes_per_user", roomy),
            ("limits.searches_per_user", roomy),
            ("limits.otp_failures_per_network", roomy),
            ("keys.refresh_every_seconds", "0.25"),
        ] {
            settings.set(key, value);
        }
        Ok(settings)
    }

    /// Generates a root key for a temporary server.
    #[expect(clippy::disallowed_methods, reason = "the kit's own randomness, for throwaway servers")]
    pub fn random_root_key() -> Result<String> {
        let mut bytes = [0; 32];
        rand::fill(&mut bytes)?;
        Ok(BASE64_STANDARD.encode(bytes))
    }

    pub fn set(&mut self, key: &str, value: &str) {
        self.0.push((key.to_owned(), value.to_owned()));
    }

    pub fn extend(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().filter(|(known, _)| *known == key).last().map(|(_, value)| value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}
