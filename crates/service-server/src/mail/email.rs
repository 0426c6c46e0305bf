//! What mails say, and to whom.

use serde::{Deserialize, Serialize};
use service_api::{
    ids::{ConnectionId, UserId},
    oauth::is_first_party,
    token::{AddressLink, KeepAccount, OtpCode, SignInReport, Token},
};
use service_rules::{Timestamp, user_agent::UserAgent};

use crate::locales::Language;

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
    /// The user requires a passkey to sign in from now on, or no longer does.
    PasskeyRequirementChanged {
        to: String,
        required: bool,
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
    /// A change of the address was requested: the link confirms and stops it.
    AddressChangeRequested {
        to: String,
        /// The new address.
        email: String,
        at: Timestamp,
        from: String,
        link: Token<AddressLink>,
    },
    /// The recipient is to become the address of an account: the link confirms and stops it.
    AddressConfirmation {
        to: String,
        at: Timestamp,
        from: String,
        link: Token<AddressLink>,
        language: Language,
    },
    /// The recipient cannot become the address of an account, because it is that of another one.
    AddressInUse {
        to: String,
        at: Timestamp,
        from: String,
        language: Language,
    },
    /// Both addresses have confirmed a change: the link stops it.
    AddressChangeDue {
        to: String,
        /// The new address.
        email: String,
        due_at: Timestamp,
        link: Token<AddressLink>,
    },
    /// A change was stopped.
    AddressChangeStopped {
        to: String,
        /// The address that the account would have had.
        email: String,
        at: Timestamp,
    },
    /// The address of the account was changed.
    AddressChanged {
        to: String,
        /// The new address.
        email: String,
        /// For the operator, if the user did not request it: the former address leads to no account.
        user_id: UserId,
    },
    /// A change that was due could not be made.
    AddressNotChanged {
        to: String,
        /// The address that the account would have had.
        email: String,
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
    /// The language of the request that caused the mail. Mails that another party or the service caused are in English:
    /// an attacker must not choose the language of a warning.
    pub(super) fn language(&self) -> Language {
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
            | Self::AddressConfirmation { language, .. }
            | Self::AddressInUse { language, .. }
            | Self::Invitation { language, .. } => *language,
            Self::SessionReplayed { .. }
            | Self::BreakGlassUsed { .. }
            | Self::CliTokenEnds { .. }
            | Self::PasskeyCopied { .. }
            | Self::PasskeyRecoveryBegun { .. }
            | Self::PasskeyRecoveryStopped { .. }
            | Self::PasskeyRecoveryEnded { .. }
            | Self::RecoveryCodesRemoved { .. }
            | Self::PasskeyRequirementChanged { .. }
            | Self::RecoveryCodeUsed { .. }
            | Self::NewSignIn { .. }
            | Self::AccountSecured { .. }
            | Self::AccountClosed { .. }
            | Self::AccountLinkReplaced { .. }
            | Self::AccountKept { .. }
            | Self::AccountErased { .. }
            | Self::AddressChangeRequested { .. }
            | Self::AddressChangeDue { .. }
            | Self::AddressChangeStopped { .. }
            | Self::AddressChanged { .. }
            | Self::AddressNotChanged { .. }
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
            Self::PasskeyRequirementChanged { .. } => "passkey requirement changed",
            Self::RecoveryCodeUsed { .. } => "recovery code used",
            Self::NewSignIn { .. } => "new sign-in",
            Self::AccountSecured { .. } => "account secured",
            Self::AccountClosed { .. } => "account closed",
            Self::AccountLinkReplaced { .. } => "account link replaced",
            Self::AccountKept { .. } => "account kept",
            Self::AccountErased { .. } => "account erased",
            Self::AddressChangeRequested { .. } => "address change requested",
            Self::AddressConfirmation { .. } => "address confirmation",
            Self::AddressInUse { .. } => "address in use",
            Self::AddressChangeDue { .. } => "address change confirmed",
            Self::AddressChangeStopped { .. } => "address change stopped",
            Self::AddressChanged { .. } => "address changed",
            Self::AddressNotChanged { .. } => "address not changed",
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
            | Self::PasskeyRequirementChanged { to, .. }
            | Self::RecoveryCodeUsed { to, .. }
            | Self::NewSignIn { to, .. }
            | Self::AccountSecured { to, .. }
            | Self::AccountClosed { to, .. }
            | Self::AccountLinkReplaced { to, .. }
            | Self::AccountKept { to, .. }
            | Self::AccountErased { to, .. }
            | Self::AddressChangeRequested { to, .. }
            | Self::AddressConfirmation { to, .. }
            | Self::AddressInUse { to, .. }
            | Self::AddressChangeDue { to, .. }
            | Self::AddressChangeStopped { to, .. }
            | Self::AddressChanged { to, .. }
            | Self::AddressNotChanged { to, .. }
            | Self::CredentialRevoked { to, .. }
            | Self::Invitation { to, .. }
            | Self::TokenLeaked { to, .. }
            | Self::TokenExposed { to, .. }
            | Self::DomainFailing { to, .. }
            | Self::DomainLost { to, .. } => to,
        }
    }
}
