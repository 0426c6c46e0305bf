//! Mails to users, each in plain text and HTML.

mod blocks;
pub mod delivery_report;
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
use serde::{Deserialize, Serialize};
use service_api::{
    ids::{ConnectionId, MailId},
    oauth::is_first_party,
    token::{KeepAccount, OtpCode, SignInReport, Token},
};
use service_rules::{Timestamp, user_agent::UserAgent};
use zeroize::Zeroizing;

use self::templates::{Writer, Written};
pub use self::things::things;
use crate::{
    config::Config,
    crypto::{random, root_keys::RootKeys},
    database::Connection,
    locales::{Language, Locales},
    store,
};

/// What is written. It holds secrets, so it has no `Debug` and rests only sealed.
#[derive(Serialize, Deserialize)]
pub enum Email {
    SignInCode {
        to: String,
        code: OtpCode,
        /// The id of the client that asked; empty if it did not say.
        client_id: String,
        asked_at: Timestamp,
        asked_from: String,
        #[serde(default)]
        language: Language,
    },
    /// A code was requested for an address whose company requires single sign-on. There is no code.
    SsoRequired {
        to: String,
        company: String,
        connection_id: ConnectionId,
        asked_at: Timestamp,
        asked_from: String,
        language: Language,
    },
    /// An account was linked with an identity of a company's provider.
    SsoLinked {
        to: String,
        company: String,
        at: Timestamp,
        from: String,
        /// The account was linked with another identity before, and its sessions and tokens were revoked.
        #[serde(default)]
        was_linked: bool,
        language: Language,
    },
    /// A code that links an account with an identity of a company's provider.
    LinkCode {
        to: String,
        code: OtpCode,
        asked_at: Timestamp,
        asked_from: String,
        language: Language,
    },
    /// An owner signed in by code although single sign-on is required. To every owner.
    BreakGlassUsed {
        to: String,
        /// The email address of the owner who signed in.
        user: String,
        company: String,
        at: Timestamp,
        from: String,
    },
    /// A refresh token or an authorization code was used again, so two parties have it. The session was revoked.
    SessionReplayed {
        to: String,
        client_id: String,
        ended_at: Timestamp,
        presented_from: String,
        #[serde(default)]
        made: MadeThings,
    },
    /// A pair of tokens for MCP was created.
    McpTokensCreated {
        to: String,
        scopes: String,
        made_at: Timestamp,
        made_from: String,
        expires_at: Timestamp,
        #[serde(default)]
        language: Language,
    },
    CliTokenCreated {
        to: String,
        name: String,
        hint: String,
        scopes: String,
        made_at: Timestamp,
        made_from: String,
        expires_at: Timestamp,
        #[serde(default)]
        language: Language,
    },
    CliTokenEnds {
        to: String,
        name: String,
        hint: String,
        expires_at: Timestamp,
    },
    PasskeyAdded {
        to: String,
        name: String,
        at: Timestamp,
        from: String,
        language: Language,
    },
    PasskeyRemoved {
        to: String,
        name: String,
        at: Timestamp,
        from: String,
        language: Language,
    },
    /// A passkey was refused, because another device has a copy of it.
    PasskeyCopied {
        to: String,
        name: String,
        at: Timestamp,
        from: String,
    },
    /// All passkeys will be removed, because the user has lost them.
    PasskeyRecoveryBegun {
        to: String,
        at: Timestamp,
        from: String,
        due_at: Timestamp,
    },
    /// The removal of all passkeys was stopped.
    PasskeyRecoveryStopped {
        to: String,
        at: Timestamp,
        from: String,
    },
    /// All passkeys were removed, because the user had lost them.
    PasskeyRecoveryEnded {
        to: String,
        /// Their names.
        removed: Vec<String>,
    },
    RecoveryCodesCreated {
        to: String,
        at: Timestamp,
        from: String,
        language: Language,
    },
    /// The recovery codes of a user no longer work.
    RecoveryCodesRemoved {
        to: String,
        at: Timestamp,
        from: String,
    },
    /// A recovery code was entered in place of a passkey.
    RecoveryCodeUsed {
        to: String,
        /// How many codes are left.
        left: i32,
        at: Timestamp,
        from: String,
    },
    /// A sign-in on a device, or with an app, that was new to the account.
    NewSignIn {
        to: String,
        with: SignedInWith,
        at: Timestamp,
        from: String,
        /// The secret of the link that revokes the sign-in.
        report: Token<SignInReport>,
    },
    /// The user revoked everything but the session in use.
    AccountSecured {
        to: String,
        at: Timestamp,
        from: String,
        /// The names of the passkeys that were removed.
        passkeys: Vec<String>,
    },
    /// The account was closed, and will be erased.
    AccountClosed {
        to: String,
        at: Timestamp,
        /// `None`: an operator closed it.
        from: Option<String>,
        erased_on: Timestamp,
        /// Workspaces that are erased with it, by name.
        workspaces: Vec<String>,
        /// The secret of the link that keeps it.
        keep: Option<Token<KeepAccount>>,
    },
    /// The link that keeps a closed account leaked, and is replaced by this one.
    AccountLinkReplaced {
        to: String,
        erased_on: Timestamp,
        keep: Token<KeepAccount>,
    },
    /// The account was opened again.
    AccountKept {
        to: String,
        at: Timestamp,
    },
    AccountErased {
        to: String,
    },
    /// An owner of a workspace revoked a member's credential for it.
    CredentialRevoked {
        to: String,
        credential: RevokedCredential,
        workspace: String,
        owner: String,
        revoked_at: Timestamp,
    },
    Invitation {
        to: String,
        workspace: String,
        invited_by: String,
        expires_at: Timestamp,
        #[serde(default)]
        language: Language,
    },
    /// A token was reported as leaked.
    TokenLeaked {
        to: String,
        what: String,
        ended_at: Timestamp,
        #[serde(default)]
        made: MadeThings,
    },
    /// A token was sent as content, which was refused.
    TokenExposed {
        to: String,
        what: String,
        sent_at: Timestamp,
    },
    /// The DNS record of a verified domain was not found at a weekly check.
    DomainFailing {
        to: String,
        domain: String,
        record: String,
        /// When the domain is lost if nothing changes.
        lost_at: Timestamp,
    },
    /// A workspace has lost a domain.
    DomainLost {
        to: String,
        domain: String,
        record: String,
        /// Whether another workspace has proved the domain.
        taken_over: bool,
    },
}

/// What a user signed in with, as a mail names it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum SignedInWith {
    /// A browser and its system, as [`UserAgent::to_stored`] writes them.
    Browser(String),
    /// A client of this service, by its id.
    Client(String),
    /// An app of others, by the host that it is on. Its name is not mailed, because others chose it.
    App(String),
}

impl SignedInWith {
    /// A browser.
    #[must_use]
    pub fn browser(agent: UserAgent) -> Self {
        Self::Browser(agent.to_stored())
    }

    /// A client of this service.
    #[must_use]
    pub fn client(id: &str) -> Self {
        Self::Client(id.to_owned())
    }

    /// A client whose answers are sent to this host.
    #[must_use]
    pub fn app(client_id: &str, host: &str) -> Self {
        if is_first_party(client_id) { Self::client(client_id) } else { Self::App(host.to_owned()) }
    }
}

/// A credential that an owner of a workspace revoked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum RevokedCredential {
    /// A CLI token with the name that its user gave it.
    CliToken(String),
    /// A session of an app. Its name is not mailed, because others chose it.
    App,
}

/// What a session had made that was revoked with it, and what stays, as a mail lists it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MadeThings {
    pub revoked: Vec<String>,
    pub kept: Vec<String>,
}

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

    /// The language of the request that caused the mail. Mails that another party or the service caused are in English:
    /// an attacker must not choose the language of a warning.
    fn language(&self) -> Language {
        match self {
            Self::SignInCode { language, .. }
            | Self::SsoRequired { language, .. }
            | Self::SsoLinked { language, .. }
            | Self::LinkCode { language, .. }
            | Self::McpTokensCreated { language, .. }
            | Self::CliTokenCreated { language, .. }
            | Self::PasskeyAdded { language, .. }
            | Self::PasskeyRemoved { language, .. }
            | Self::RecoveryCodesCreated { language, .. }
            | Self::Invitation { language, .. } => *language,
            Self::SessionReplayed { .. }
            | Self::BreakGlassUsed { .. }
            | Self::CliTokenEnds { .. }
            | Self::PasskeyCopied { .. }
            | Self::PasskeyRecoveryBegun { .. }
            | Self::PasskeyRecoveryStopped { .. }
            | Self::PasskeyRecoveryEnded { .. }
            | Self::RecoveryCodesRemoved { .. }
            | Self::RecoveryCodeUsed { .. }
            | Self::NewSignIn { .. }
            | Self::AccountSecured { .. }
            | Self::AccountClosed { .. }
            | Self::AccountLinkReplaced { .. }
            | Self::AccountKept { .. }
            | Self::AccountErased { .. }
            | Self::CredentialRevoked { .. }
            | Self::TokenLeaked { .. }
            | Self::TokenExposed { .. }
            | Self::DomainFailing { .. }
            | Self::DomainLost { .. } => Language::English,
        }
    }

    /// What the mail is, for operators.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::SignInCode { .. } => "sign-in code",
            Self::SsoRequired { .. } => "single sign-on required",
            Self::SsoLinked { .. } => "single sign-on linked",
            Self::LinkCode { .. } => "link code",
            Self::BreakGlassUsed { .. } => "break-glass sign-in",
            Self::SessionReplayed { .. } => "session replayed",
            Self::McpTokensCreated { .. } => "MCP tokens created",
            Self::CliTokenCreated { .. } => "CLI token created",
            Self::CliTokenEnds { .. } => "CLI token expires",
            Self::PasskeyAdded { .. } => "passkey added",
            Self::PasskeyRemoved { .. } => "passkey removed",
            Self::PasskeyCopied { .. } => "passkey copied",
            Self::PasskeyRecoveryBegun { .. } => "passkey recovery begun",
            Self::PasskeyRecoveryStopped { .. } => "passkey recovery stopped",
            Self::PasskeyRecoveryEnded { .. } => "passkey recovery ended",
            Self::RecoveryCodesCreated { .. } => "recovery codes created",
            Self::RecoveryCodesRemoved { .. } => "recovery codes removed",
            Self::RecoveryCodeUsed { .. } => "recovery code used",
            Self::NewSignIn { .. } => "new sign-in",
            Self::AccountSecured { .. } => "account secured",
            Self::AccountClosed { .. } => "account closed",
            Self::AccountLinkReplaced { .. } => "account link replaced",
            Self::AccountKept { .. } => "account kept",
            Self::AccountErased { .. } => "account erased",
            Self::CredentialRevoked { .. } => "credential revoked",
            Self::Invitation { .. } => "invitation",
            Self::TokenLeaked { .. } => "token leaked",
            Self::TokenExposed { .. } => "token exposed",
            Self::DomainFailing { .. } => "domain check failing",
            Self::DomainLost { .. } => "domain lost",
        }
    }

    pub(crate) fn to(&self) -> &str {
        match self {
            Self::SignInCode { to, .. }
            | Self::SsoRequired { to, .. }
            | Self::SsoLinked { to, .. }
            | Self::LinkCode { to, .. }
            | Self::BreakGlassUsed { to, .. }
            | Self::SessionReplayed { to, .. }
            | Self::McpTokensCreated { to, .. }
            | Self::CliTokenCreated { to, .. }
            | Self::CliTokenEnds { to, .. }
            | Self::PasskeyAdded { to, .. }
            | Self::PasskeyRemoved { to, .. }
            | Self::PasskeyCopied { to, .. }
            | Self::PasskeyRecoveryBegun { to, .. }
            | Self::PasskeyRecoveryStopped { to, .. }
            | Self::PasskeyRecoveryEnded { to, .. }
            | Self::RecoveryCodesCreated { to, .. }
            | Self::RecoveryCodesRemoved { to, .. }
            | Self::RecoveryCodeUsed { to, .. }
            | Self::NewSignIn { to, .. }
            | Self::AccountSecured { to, .. }
            | Self::AccountClosed { to, .. }
            | Self::AccountLinkReplaced { to, .. }
            | Self::AccountKept { to, .. }
            | Self::AccountErased { to, .. }
            | Self::CredentialRevoked { to, .. }
            | Self::Invitation { to, .. }
            | Self::TokenLeaked { to, .. }
            | Self::TokenExposed { to, .. }
            | Self::DomainFailing { to, .. }
            | Self::DomainLost { to, .. } => to,
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
