//! `/v1/audit-events`: the audit events of an account or a workspace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Timestamp,
    ids::{EventId, UserId, WorkspaceId},
    instant,
};

/// An audit event. It never contains a secret.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    /// The ID of the event.
    pub id: EventId,
    /// When it happened.
    #[serde(with = "instant::Written")]
    pub at: Timestamp,
    /// The name of the event. A newer server may send others.
    pub event: String,
    /// The affected user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    /// The client of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The workspace that it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    /// The ID of the affected resource: a session, a CLI token, a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The network address of the request; after 30 days only its network, such as `203.0.113.0/24`. Only the user who made
    /// the request sees it. Absent: the actor was another user, an operator or the service itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The ID of the request that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// More about the event. The members depend on `event`.
    pub details: serde_json::Map<String, serde_json::Value>,
}

macro_rules! event_names {
    ($($name:ident = $text:literal, $doc:literal;)*) => {
        /// The name of an audit event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum EventName {
            $(#[doc = $doc] $name,)*
        }

        impl EventName {
            pub const ALL: &[Self] = &[$(Self::$name),*];

            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// What the event means, for people.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => $doc,)*
                }
            }
        }
    };
}

event_names! {
    OtpRequested = "otp.requested", "Sign-in code requested";
    OtpFailed = "otp.failed", "Failed sign-in attempt (wrong code)";
    UserCreated = "user.created", "Account created";
    SignInSucceeded = "sign_in.succeeded", "Signed in";
    SsoLinked = "sso.linked", "Account linked with an identity of the company's provider";
    SsoRefused = "sso.refused", "Sign-in through the company's provider refused";
    SsoLoggedOut = "sso.logged_out", "Sessions revoked by the company";
    BreakGlassUsed = "break_glass.used", "Signed in by code although single sign-on is required";
    ConnectionTried = "connection.tried", "Connection tried by an owner";
    SignInReported = "sign_in.reported", "Sign-in reported as someone else’s, and revoked";
    AccountRenamed = "account.renamed", "Name changed";
    AccountSecured = "account.secured", "Account secured";
    PasskeyAwaited = "sign_in.passkey_awaited", "Right code entered, and a passkey required";
    PasskeyRequired = "account.passkey_required", "Passkey required to sign in";
    PasskeyNotRequired = "account.passkey_not_required", "Passkey no longer required to sign in";
    AddressChangeRequested = "account.address_change_requested", "Change of the email address requested";
    AddressChangeConfirmed = "account.address_change_confirmed", "Change of the email address confirmed";
    AddressChangeStopped = "account.address_change_stopped", "Change of the email address stopped";
    AddressChanged = "account.address_changed", "Email address changed";
    AccountDeletionRequested = "account.deletion_requested", "Deletion of the account requested";
    AccountKept = "account.kept", "Deletion of the account cancelled";
    AccountErased = "account.erased", "Account erased";
    AccountExportStarted = "account.export_started", "Export of the account data started";
    AccountExportDownloaded = "account.export_downloaded", "Download of the account data begun";
    PasskeyAdded = "passkey.added", "Passkey added";
    PasskeyRenamed = "passkey.renamed", "Passkey renamed";
    PasskeyRemoved = "passkey.removed", "Passkey removed";
    PasskeyRecoveryBegun = "passkey.recovery_begun", "Removal of all passkeys requested";
    RecoveryCodesCreated = "recovery_codes.created", "Recovery codes created";
    RecoveryCodesRemoved = "recovery_codes.removed", "Recovery codes removed";
    RecoveryCodeUsed = "recovery_code.used", "Recovery code used";
    PasskeyRecoveryStopped = "passkey.recovery_stopped", "Removal of all passkeys cancelled";
    PasskeyCopied = "passkey.copied", "Passkey refused, because another device has a copy of it";
    SessionOpened = "session.opened", "App connected";
    ConsentGranted = "consent.granted", "App authorized";
    ConsentWithdrawn = "consent.withdrawn", "App access removed";
    ConsentExpired = "consent.expired", "App access expired (at its end date, or not used for 90 days)";
    CodeReplayed = "code.replayed", "Authorization code used twice; session revoked";
    ClientRegistered = "client.registered", "App registered itself";
    ClientCreated = "client.created", "Client created by an operator";
    ClientDisabled = "client.disabled", "Client disabled by an operator; its access tokens were revoked";
    ClientEnabled = "client.enabled", "Client enabled by an operator";
    ClientRedirectUrisSet = "client.redirect_uris_set", "Redirect URIs of a client changed by an operator";
    ClientSessionsRevoked = "client.sessions_revoked", "All sessions of a client revoked by an operator";
    ClientHostBlocked = "client.host_blocked", "Host of self-registered clients blocked by an operator";
    ClientHostUnblocked = "client.host_unblocked", "Host of self-registered clients unblocked by an operator";
    SessionEnded = "session.ended", "Signed out";
    SessionOthersEnded = "session.others_ended", "Other sessions revoked";
    SessionAllEnded = "session.all_ended", "Signed out everywhere";
    RefreshReplay = "refresh.replay", "Old refresh token used again; session revoked";
    RefreshFastForwarded = "refresh.fast_forwarded", "Refresh token newer than the restored database accepted";
    CliTokenCreated = "cli_token.created", "Token created";
    CliTokenRotated = "cli_token.rotated", "Token rotated";
    CliTokenRevoked = "cli_token.revoked", "Token revoked";
    McpTokensCreated = "mcp_tokens.created", "MCP tokens created";
    TokenLeaked = "token.leaked", "Token reported leaked and revoked";
    TokenExposed = "token.exposed", "Token found in submitted content; the content was rejected";
    UserDisabled = "user.disabled", "Account disabled by an operator";
    UserEnabled = "user.enabled", "Account enabled by an operator";
    UserSignedOut = "user.signed_out", "All sessions revoked by an operator";
    SupportViewed = "support.viewed", "Account viewed by an operator for support";
    LimitReset = "limit.reset", "Rate limits reset by an operator";
    MailListed = "mail.listed", "Waiting mail listed by an operator";
    MailBounced = "mail.bounced", "Mail to the address of the account bounced";
    MailResent = "mail.resent", "Waiting mail sent again by an operator";
    SupportClientCreated = "support_client.created", "Client of the support listener created by an operator";
    SupportClientRevoked = "support_client.revoked", "Client of the support listener revoked by an operator";
    WorkspaceCreated = "workspace.created", "Workspace created";
    WorkspaceRenamed = "workspace.renamed", "Workspace renamed";
    WorkspacePasskeyRequired = "workspace.passkey_required", "Passkey required from members";
    WorkspacePasskeyNotRequired = "workspace.passkey_not_required", "Passkey no longer required from members";
    MemberInvited = "member.invited", "Member invited";
    InvitationRevoked = "invitation.revoked", "Invitation revoked";
    InvitationAccepted = "invitation.accepted", "Invitation accepted";
    InvitationDeclined = "invitation.declined", "Invitation declined";
    WorkspaceBlocked = "workspace.blocked", "Workspace blocked";
    WorkspaceUnblocked = "workspace.unblocked", "Workspace unblocked";
    MemberJoined = "member.joined", "Member joined";
    RoleChanged = "member.role_changed", "Role changed";
    MemberRemoved = "member.removed", "Member removed";
    WorkspaceDeleted = "workspace.deleted", "Workspace deleted";
    ConnectionCreated = "connection.created", "Connection to an identity provider created";
    ConnectionChanged = "connection.changed", "Connection to an identity provider changed";
    ConnectionEnabled = "connection.enabled", "Connection to an identity provider enabled or disabled";
    ConnectionRequired = "connection.required", "Single sign-on required, or no longer required";
    ConnectionDeleted = "connection.deleted", "Connection to an identity provider deleted";
    DomainClaimed = "domain.claimed", "Domain claimed";
    DomainChanged = "domain.changed", "Connection of a domain changed";
    DomainVerified = "domain.verified", "Domain verified";
    DomainLost = "domain.lost", "Domain no longer verified";
    DomainRemoved = "domain.removed", "Domain removed";
    ContentMoved = "content.moved", "Content moved to or from a workspace";
    ContentDeleted = "content.deleted", "Content deleted";
    DeletionConfirmed = "content.deletion_confirmed", "User confirmed a deletion that an app requested";
    DeletionDenied = "content.deletion_denied", "User denied a deletion that an app requested";
    ContentRestored = "content.restored", "Content restored";
    EpochBumped = "epoch.bumped", "All sessions of all users revoked by an operator";
    RestoreFenced = "restore.fenced", "Database restore detected; nodes answer 503";
    RestoreFinished = "restore.finished", "Database restore finished by an operator";
    KeyCreated = "key.created", "Signing key created";
    KeyRetired = "key.retired", "Signing key retired";
}

impl EventName {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|name| name.as_str() == text)
    }
}
