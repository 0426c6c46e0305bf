//! What mails call a credential.

use crate::locales::{Language, Locales, Texts};

/// The names of credentials in mails to their owners. They are in English: the request that caused such a mail may be an
/// attacker's.
pub struct Things<'a>(&'a Texts);

#[must_use]
pub const fn things(locales: &Locales) -> Things<'_> {
    Things(locales.of(Language::English))
}

impl Things<'_> {
    #[must_use]
    pub fn cli_token(&self, name: &str, hint: &str) -> String {
        self.0.mail.things.cli_token.with("name", name).with("hint", hint).to_string()
    }

    #[must_use]
    pub fn browser_cookie(&self) -> String {
        self.0.mail.things.browser_cookie.to_string()
    }

    #[must_use]
    pub fn device_secret(&self, hint: &str) -> String {
        self.0.mail.things.device_secret.with("hint", hint).to_string()
    }

    /// A session, by the client that has it.
    #[must_use]
    pub fn session(&self, client_id: &str) -> String {
        self.0.mail.things.session.with("client", self.0.client_or_app(client_id)).to_string()
    }
}
