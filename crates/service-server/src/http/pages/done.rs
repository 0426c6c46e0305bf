//! What a page says after a form was carried out. The message travels in the address of the page, sealed for this browser
//! session and for a minute, so that no link can make a page say anything.

use service_api::Timestamp;

use crate::{app::App, flows::sign_in::browser_session::Browser, locales::Texts};

/// Seconds for which a message is shown.
const MESSAGE_LIFETIME: i64 = 60;
/// No message that this module seals is longer.
const MAX_SEALED_LENGTH: usize = 2_048;

/// Something that a form did, with the name of what it did it to.
#[derive(Debug)]
pub(super) enum Done {
    TokenRevoked(String),
    PasskeyAdded(String),
    PasskeyRenamed(String),
    PasskeyRemoved(String),
    PasskeyRecoveryBegun,
    PasskeyRecoveryStopped,
    PasskeyRequired,
    CodesAllowed,
    Renamed(String),
    NameRemoved,
    AddressChangeRequested,
    AddressChangeStopped,
    AccountSecured,
    ExportStarted,
    SuspectedTokensRevoked,
    AppRemoved(String),
    SignedOut(String),
    MemberRemoved(String),
    InvitationRevoked(String),
    ConnectionDeleted(String),
    DomainRemoved(String),
    WorkspaceLeft(String),
    WorkspacePasskeyRequired,
    WorkspaceCodesAllowed,
}

impl Done {
    /// The message, sealed for the address of the page that shows it.
    pub(super) fn seal(&self, app: &App, browser: &Browser) -> anyhow::Result<String> {
        let (kind, name) = match self {
            Self::TokenRevoked(name) => (b't', name.as_str()),
            Self::PasskeyAdded(name) => (b'p', name.as_str()),
            Self::PasskeyRenamed(name) => (b'n', name.as_str()),
            Self::PasskeyRemoved(name) => (b'r', name.as_str()),
            Self::PasskeyRecoveryBegun => (b'y', ""),
            Self::PasskeyRecoveryStopped => (b'z', ""),
            Self::PasskeyRequired => (b'q', ""),
            Self::CodesAllowed => (b'u', ""),
            Self::Renamed(name) => (b'f', name.as_str()),
            Self::NameRemoved => (b'g', ""),
            Self::AddressChangeRequested => (b'h', ""),
            Self::AddressChangeStopped => (b'j', ""),
            Self::AccountSecured => (b'e', ""),
            Self::ExportStarted => (b'x', ""),
            Self::SuspectedTokensRevoked => (b's', ""),
            Self::AppRemoved(name) => (b'a', name.as_str()),
            Self::SignedOut(name) => (b'o', name.as_str()),
            Self::MemberRemoved(name) => (b'm', name.as_str()),
            Self::InvitationRevoked(name) => (b'i', name.as_str()),
            Self::ConnectionDeleted(name) => (b'c', name.as_str()),
            Self::DomainRemoved(name) => (b'd', name.as_str()),
            Self::WorkspaceLeft(name) => (b'w', name.as_str()),
            Self::WorkspacePasskeyRequired => (b'k', ""),
            Self::WorkspaceCodesAllowed => (b'l', ""),
        };
        let at = app.clock.now().as_second().to_be_bytes();
        browser.seal_message(app, &[&[kind][..], &at, name.as_bytes()].concat())
    }

    /// Opens a sealed message. `None`: it was not sealed for this browser, or is too old.
    pub(super) fn open(app: &App, browser: &Browser, sealed: &str) -> Option<Self> {
        let message = (sealed.len() <= MAX_SEALED_LENGTH).then(|| browser.open_message(app, sealed))??;
        let (kind, rest) = message.split_first()?;
        let (at, name) = rest.split_first_chunk::<8>()?;
        let name = String::from_utf8(name.to_vec()).ok()?;
        if !is_recent(i64::from_be_bytes(*at), app.clock.now()) {
            return None;
        }
        match kind {
            b't' => Some(Self::TokenRevoked(name)),
            b'p' => Some(Self::PasskeyAdded(name)),
            b'n' => Some(Self::PasskeyRenamed(name)),
            b'r' => Some(Self::PasskeyRemoved(name)),
            b'y' => Some(Self::PasskeyRecoveryBegun),
            b'z' => Some(Self::PasskeyRecoveryStopped),
            b'q' => Some(Self::PasskeyRequired),
            b'u' => Some(Self::CodesAllowed),
            b'f' => Some(Self::Renamed(name)),
            b'g' => Some(Self::NameRemoved),
            b'h' => Some(Self::AddressChangeRequested),
            b'j' => Some(Self::AddressChangeStopped),
            b'e' => Some(Self::AccountSecured),
            b'x' => Some(Self::ExportStarted),
            b's' => Some(Self::SuspectedTokensRevoked),
            b'a' => Some(Self::AppRemoved(name)),
            b'o' => Some(Self::SignedOut(name)),
            b'm' => Some(Self::MemberRemoved(name)),
            b'i' => Some(Self::InvitationRevoked(name)),
            b'c' => Some(Self::ConnectionDeleted(name)),
            b'd' => Some(Self::DomainRemoved(name)),
            b'w' => Some(Self::WorkspaceLeft(name)),
            b'k' => Some(Self::WorkspacePasskeyRequired),
            b'l' => Some(Self::WorkspaceCodesAllowed),
            _ => None,
        }
    }

    pub(super) fn text(&self, t: &Texts) -> String {
        let texts = &t.done;
        match self {
            Self::TokenRevoked(name) => texts.token_revoked.with("name", name).to_string(),
            Self::PasskeyAdded(name) => texts.passkey_added.with("name", name).to_string(),
            Self::PasskeyRenamed(name) => texts.passkey_renamed.with("name", name).to_string(),
            Self::PasskeyRemoved(name) => texts.passkey_removed.with("name", name).to_string(),
            Self::PasskeyRecoveryBegun => texts.passkey_recovery_begun.to_string(),
            Self::PasskeyRecoveryStopped => texts.passkey_recovery_stopped.to_string(),
            Self::PasskeyRequired => texts.passkey_required.to_string(),
            Self::CodesAllowed => texts.codes_allowed.to_string(),
            Self::Renamed(name) => texts.renamed.with("name", name).to_string(),
            Self::NameRemoved => texts.name_removed.to_string(),
            Self::AddressChangeRequested => texts.address_change_requested.to_string(),
            Self::AddressChangeStopped => texts.address_change_stopped.to_string(),
            Self::AccountSecured => texts.account_secured.to_string(),
            Self::ExportStarted => texts.export_started.to_string(),
            Self::SuspectedTokensRevoked => texts.tokens_revoked.to_string(),
            Self::AppRemoved(name) => texts.app_removed.with("name", name).to_string(),
            Self::SignedOut(name) => texts.signed_out.with("name", name).to_string(),
            Self::MemberRemoved(email) => texts.member_removed.with("email", email).to_string(),
            Self::InvitationRevoked(email) => texts.invitation_revoked.with("email", email).to_string(),
            Self::ConnectionDeleted(name) => texts.connection_deleted.with("name", name).to_string(),
            Self::DomainRemoved(domain) => texts.domain_removed.with("domain", domain).to_string(),
            Self::WorkspaceLeft(name) => texts.workspace_left.with("name", name).to_string(),
            Self::WorkspacePasskeyRequired => texts.workspace_passkey_required.to_string(),
            Self::WorkspaceCodesAllowed => texts.workspace_codes_allowed.to_string(),
        }
    }
}

fn is_recent(at: i64, now: Timestamp) -> bool {
    at.checked_add(MESSAGE_LIFETIME).is_some_and(|until| now.as_second() < until)
}
