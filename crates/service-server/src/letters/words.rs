//! What each letter says.

use askama::Template;
use service_api::oauth::{SERVICE_CLI, SERVICE_MCP, SERVICE_WEB};
use service_rules::{Timestamp, lifetimes};
use zeroize::Zeroizing;

use crate::letters::Letter;

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

#[derive(Template)]
#[template(path = "mail/token_exposed.txt")]
struct TokenExposedText<'a>(&'a TokenExposed<'a>);

#[derive(Template)]
#[template(path = "mail/token_exposed.html")]
struct TokenExposedHtml<'a>(&'a TokenExposed<'a>);

struct TokenExposed<'a> {
    what: &'a str,
    sent_at: String,
    base_url: &'a str,
}

#[derive(Template)]
#[template(path = "mail/invitation.txt")]
struct InvitationText<'a>(&'a Invitation<'a>);

#[derive(Template)]
#[template(path = "mail/invitation.html")]
struct InvitationHtml<'a>(&'a Invitation<'a>);

struct Invitation<'a> {
    workspace: &'a str,
    invited_by: &'a str,
    expires_at: String,
    base_url: &'a str,
}

/// A letter in words.
pub(super) struct Written {
    pub(super) subject: &'static str,
    pub(super) text: String,
    pub(super) html: String,
}

impl Letter {
    pub(super) fn write(&self, base_url: &str) -> anyhow::Result<Written> {
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
            Self::Invitation { workspace, invited_by, expires_at, .. } => {
                let says = Invitation { workspace, invited_by, expires_at: moment(*expires_at), base_url };
                let (text, html) = (InvitationText(&says).render()?, InvitationHtml(&says).render()?);
                Ok(Written { subject: "You were invited into a workspace", text, html })
            }
            Self::TokenLeaked { what, ended_at, .. } => {
                let says = TokenLeaked { what, ended_at: moment(*ended_at), base_url };
                let (text, html) = (TokenLeakedText(&says).render()?, TokenLeakedHtml(&says).render()?);
                Ok(Written { subject: "A token of yours leaked, and was ended", text, html })
            }
            Self::TokenExposed { what, sent_at, .. } => {
                let says = TokenExposed { what, sent_at: moment(*sent_at), base_url };
                let (text, html) = (TokenExposedText(&says).render()?, TokenExposedHtml(&says).render()?);
                Ok(Written { subject: "A token of yours was sent as content", text, html })
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
