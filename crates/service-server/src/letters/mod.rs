//! What is written to people: each letter, in plain text and HTML.

mod words;

use anyhow::anyhow;
use lettre::{
    Message,
    message::{Mailbox, MultiPart, header},
};
use serde::{Deserialize, Serialize};
use service_api::{ids::MailId, token::OtpCode};
use service_rules::Timestamp;
use zeroize::Zeroizing;

use self::words::Written;
pub use self::words::spoken;
use crate::{database::Connection, mint, store, vault::Vault};

/// What is written. It holds secrets, so it has no `Debug` and rests only sealed.
#[derive(Serialize, Deserialize)]
pub enum Letter {
    SignInCode {
        to: String,
        code: OtpCode,
        /// The id of the client that asked; empty if it did not say.
        client_id: String,
        asked_at: Timestamp,
        asked_from: String,
    },
    /// A refresh token came back that somebody else must have: the session was ended.
    SessionReplayed {
        to: String,
        client_id: String,
        ended_at: Timestamp,
        presented_from: String,
    },
    CliTokenCreated {
        to: String,
        name: String,
        hint: String,
        scopes: String,
        made_at: Timestamp,
        made_from: String,
        expires_at: Timestamp,
    },
    CliTokenEnds {
        to: String,
        name: String,
        hint: String,
        expires_at: Timestamp,
    },
    Invitation {
        to: String,
        workspace: String,
        invited_by: String,
        expires_at: Timestamp,
    },
    /// Somebody found a token where it should not be.
    TokenLeaked {
        to: String,
        what: String,
        ended_at: Timestamp,
    },
    /// A token was sent as content, which was refused.
    TokenExposed {
        to: String,
        what: String,
        sent_at: Timestamp,
    },
}

impl Letter {
    pub fn seal(&self, vault: &Vault, id: MailId) -> anyhow::Result<Vec<u8>> {
        vault.seal(&place(id), &Zeroizing::new(serde_json::to_vec(self)?))
    }

    /// Puts it into the outbox, in the caller's transaction.
    pub async fn post(&self, vault: &Vault, db: &Connection, now: Timestamp, drop_at: Timestamp) -> anyhow::Result<()> {
        let id: MailId = mint::id(now)?;
        Ok(store::outbox::insert(db, id, &self.seal(vault, id)?, now, drop_at).await?)
    }

    pub fn open(vault: &Vault, id: MailId, sealed: &[u8]) -> anyhow::Result<Self> {
        serde_json::from_slice(&vault.open(&place(id), sealed)?)
            .map_err(|_| anyhow!("the sealed letter cannot be read"))
    }

    pub fn message(&self, id: MailId, from: &str, base_url: &str) -> anyhow::Result<Message> {
        let Written { subject, text, html } = self.write(base_url)?;
        let from: Mailbox = from.parse()?;
        Ok(Message::builder()
            // The same at every try, so that a mail that comes twice can be seen to be one.
            .message_id(Some(format!("<{id}@{}>", from.email.domain())))
            .from(from)
            .to(self.to().parse()?)
            .subject(subject)
            .header(AutoSubmitted)
            .multipart(MultiPart::alternative_plain_html(text, html))?)
    }

    fn to(&self) -> &str {
        match self {
            Self::SignInCode { to, .. }
            | Self::SessionReplayed { to, .. }
            | Self::CliTokenCreated { to, .. }
            | Self::CliTokenEnds { to, .. }
            | Self::Invitation { to, .. }
            | Self::TokenLeaked { to, .. }
            | Self::TokenExposed { to, .. } => to,
        }
    }
}

fn place(id: MailId) -> String {
    format!("outbox.sealed/{id}")
}

/// Tells mail systems not to answer (RFC 3834).
#[derive(Clone)]
struct AutoSubmitted;

impl header::Header for AutoSubmitted {
    fn name() -> header::HeaderName {
        header::HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> header::HeaderValue {
        header::HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}
