//! What is written to people: each letter, in plain text and HTML.

use anyhow::anyhow;
use askama::Template;
use lettre::{
    Message,
    message::{Mailbox, MultiPart, header},
};
use serde::{Deserialize, Serialize};
use service_api::{
    ids::MailId,
    oauth::{SERVICE_CLI, SERVICE_MCP, SERVICE_WEB},
    token::OtpCode,
};
use service_rules::{Timestamp, lifetimes};
use zeroize::Zeroizing;

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
    /// Somebody found a token where it should not be.
    TokenLeaked {
        to: String,
        what: String,
        ended_at: Timestamp,
    },
}

#[derive(Template)]
#[template(path = "mail/sign_in_code.txt")]
struct SignInCodeText<'a>(&'a SignInCode<'a>);

#[derive(Template)]
#[template(path = "mail/sign_in_code.html")]
struct SignInCodeHtml<'a>(&'a SignInCode<'a>);

/// What both forms of the mail say.
struct SignInCode<'a> {
    code: &'a str,
    minutes: i64,
    client: &'a str,
    asked_at: String,
    asked_from: &'a str,
    base_url: &'a str,
}

#[derive(Template)]
#[template(path = "mail/session_replayed.txt")]
struct SessionReplayedText<'a>(&'a SessionReplayed<'a>);

#[derive(Template)]
#[template(path = "mail/session_replayed.html")]
struct SessionReplayedHtml<'a>(&'a SessionReplayed<'a>);

struct SessionReplayed<'a> {
    client: &'a str,
    ended_at: String,
    presented_from: &'a str,
    base_url: &'a str,
}

#[derive(Template)]
#[template(path = "mail/cli_token_created.txt")]
struct CliTokenCreatedText<'a>(&'a CliTokenCreated<'a>);

#[derive(Template)]
#[template(path = "mail/cli_token_created.html")]
struct CliTokenCreatedHtml<'a>(&'a CliTokenCreated<'a>);

struct CliTokenCreated<'a> {
    name: &'a str,
    hint: &'a str,
    scopes: &'a str,
    made_at: String,
    made_from: &'a str,
    expires_at: String,
    base_url: &'a str,
}

#[derive(Template)]
#[template(path = "mail/cli_token_ends.txt")]
struct CliTokenEndsText<'a>(&'a CliTokenEnds<'a>);

#[derive(Template)]
#[template(path = "mail/cli_token_ends.html")]
struct CliTokenEndsHtml<'a>(&'a CliTokenEnds<'a>);

struct CliTokenEnds<'a> {
    name: &'a str,
    hint: &'a str,
    expires_at: String,
    base_url: &'a str,
}

#[derive(Template)]
#[template(path = "mail/token_leaked.txt")]
struct TokenLeakedText<'a>(&'a TokenLeaked<'a>);

#[derive(Template)]
#[template(path = "mail/token_leaked.html")]
struct TokenLeakedHtml<'a>(&'a TokenLeaked<'a>);

struct TokenLeaked<'a> {
    what: &'a str,
    ended_at: String,
    base_url: &'a str,
}

/// A letter in words.
struct Written {
    subject: &'static str,
    text: String,
    html: String,
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
            | Self::TokenLeaked { to, .. } => to,
        }
    }

    fn write(&self, base_url: &str) -> anyhow::Result<Written> {
        match self {
            Self::SignInCode { code, client_id, asked_at, asked_from, .. } => {
                let (first, second) = code.expose().split_at(code.expose().len() / 2);
                let code = &Zeroizing::new(format!("{first} {second}"));
                let (client, asked_at) = (spoken(client_id), moment(*asked_at));
                let says = SignInCode { code, minutes: lifetimes::OTP / 60, client, asked_at, asked_from, base_url };
                let (text, html) = (SignInCodeText(&says).render()?, SignInCodeHtml(&says).render()?);
                Ok(Written { subject: "Your sign-in code", text, html })
            }
            Self::SessionReplayed { client_id, ended_at, presented_from, .. } => {
                let (client, ended_at) = (spoken(client_id), moment(*ended_at));
                let says = SessionReplayed { client, ended_at, presented_from, base_url };
                let (text, html) = (SessionReplayedText(&says).render()?, SessionReplayedHtml(&says).render()?);
                Ok(Written { subject: "We signed you out to protect your account", text, html })
            }
            Self::CliTokenCreated { name, hint, scopes, made_at, made_from, expires_at, .. } => {
                let (made_at, expires_at) = (moment(*made_at), moment(*expires_at));
                let says = CliTokenCreated { name, hint, scopes, made_at, made_from, expires_at, base_url };
                let (text, html) = (CliTokenCreatedText(&says).render()?, CliTokenCreatedHtml(&says).render()?);
                Ok(Written { subject: "A token was made for your account", text, html })
            }
            Self::CliTokenEnds { name, hint, expires_at, .. } => {
                let says = CliTokenEnds { name, hint, expires_at: moment(*expires_at), base_url };
                let (text, html) = (CliTokenEndsText(&says).render()?, CliTokenEndsHtml(&says).render()?);
                Ok(Written { subject: "One of your tokens ends soon", text, html })
            }
            Self::TokenLeaked { what, ended_at, .. } => {
                let says = TokenLeaked { what, ended_at: moment(*ended_at), base_url };
                let (text, html) = (TokenLeakedText(&says).render()?, TokenLeakedHtml(&says).render()?);
                Ok(Written { subject: "A token of yours leaked, and was ended", text, html })
            }
        }
    }
}

fn moment(at: Timestamp) -> String {
    at.strftime("%-d %B %Y, %H:%M UTC").to_string()
}

/// What people call a client: words of ours, never a name that somebody else could have chosen.
#[must_use]
pub fn spoken(client_id: &str) -> &'static str {
    match client_id {
        SERVICE_WEB => "The web app",
        SERVICE_CLI => "The command line",
        SERVICE_MCP => "The MCP client",
        _ => "Somebody",
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
