//! Mails to users, each in plain text and HTML.

mod blocks;
pub mod delivery_report;
mod email;
pub mod return_path;
mod templates;
#[cfg(test)]
mod tests;
mod things;

use anyhow::anyhow;
use lettre::{
    Message,
    address::Envelope,
    message::{Mailbox, MultiPart, header},
};
use service_api::ids::MailId;
use service_rules::Timestamp;
use zeroize::Zeroizing;

use self::templates::{Writer, Written};
pub use self::{
    email::{Email, MadeThings, RevokedCredential, SignedInWith},
    things::things,
};
use crate::{
    config::Config,
    crypto::{random, root_keys::RootKeys},
    database::Connection,
    locales::Locales,
    store,
};

impl Email {
    pub fn seal(&self, root_keys: &RootKeys, id: MailId) -> anyhow::Result<Vec<u8>> {
        root_keys.seal(&place(id), &Zeroizing::new(serde_json::to_vec(self)?))
    }

    /// Adds the mail to the outbox, in the caller's transaction. It is dropped if it cannot be sent before `drop_at`. The caller
    /// wakes the mailer once the transaction is committed.
    pub async fn enqueue(
        &self,
        root_keys: &RootKeys,
        db: &Connection,
        now: Timestamp,
        drop_at: Timestamp,
    ) -> anyhow::Result<()> {
        let id: MailId = random::id(now)?;
        Ok(store::outbox::insert(db, id, &self.seal(root_keys, id)?, now, drop_at).await?)
    }

    pub fn open(root_keys: &RootKeys, id: MailId, sealed: &[u8]) -> anyhow::Result<Self> {
        serde_json::from_slice(&root_keys.open(&place(id), sealed)?)
            .map_err(|_| anyhow!("the sealed mail cannot be read"))
    }

    /// Writes the mail. Mail systems report a bounce to its return path; without one, to the sender.
    pub fn message(
        &self,
        id: MailId,
        config: &Config,
        locales: &Locales,
        return_path: Option<lettre::Address>,
    ) -> anyhow::Result<Message> {
        let writer = Writer {
            t: locales.of(self.language()),
            base_url: &config.base_url,
            code_in_subject: config.mail.code_in_subject,
        };
        let Written { subject, text, html } = self.write(&writer)?;
        let from: Mailbox = config.mail.from.parse()?;
        let (sender, to) = (return_path.unwrap_or_else(|| from.email.clone()), self.to().parse::<Mailbox>()?);
        Ok(Message::builder()
            .envelope(Envelope::new(Some(sender), vec![to.email.clone()])?)
            // The same at every try, so that a mail that comes twice can be seen to be one.
            .message_id(Some(format!("<{id}@{}>", from.email.domain())))
            .from(from)
            .to(to)
            .subject(subject)
            .header(AutoSubmitted)
            .multipart(MultiPart::alternative_plain_html(text, html))?)
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
