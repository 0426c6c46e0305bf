//! `/v1/audit-events`: what happened to an account or in a workspace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Timestamp,
    ids::{EventId, UserId, WorkspaceId},
    instant,
};

/// One thing that happened. No secret is ever part of it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    pub id: EventId,
    #[serde(with = "instant::Written")]
    pub at: Timestamp,
    /// One of [`EventName`]; a newer server may know more.
    pub event: String,
    /// Whose account it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    /// The id of what it happened to: a session, a token for automation, a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Where the request came from that caused it; absent: an operator or the service itself did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    pub details: serde_json::Map<String, serde_json::Value>,
}

macro_rules! event_names {
    ($($name:ident = $text:literal, $doc:literal;)*) => {
        /// Everything that is recorded.
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

            /// What has happened when this is recorded.
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
    OtpRequested = "otp.requested", "A code was asked for.";
    OtpFailed = "otp.failed", "A wrong code was entered for an account.";
    UserCreated = "user.created", "An account was made at the first sign-in.";
    SignInSucceeded = "sign_in.succeeded", "Somebody signed in; a session began.";
    SessionOpened = "session.opened", "An app got its first tokens for a session.";
    ConsentGranted = "consent.granted", "Somebody let an app have access.";
    ConsentWithdrawn = "consent.withdrawn", "Somebody took an app's access back.";
    CodeReplayed = "code.replayed", "An authorization code was used twice; the session was ended.";
    ClientRegistered = "client.registered", "An app registered itself.";
    SessionEnded = "session.ended", "A session was ended by its user or by its own token.";
    SessionOthersEnded = "session.others_ended", "All sessions but the one that asked were ended.";
    RefreshReplay = "refresh.replay", "An old refresh token was used again; the session was ended.";
    RefreshFastForwarded = "refresh.fast_forwarded", "A refresh token was newer than the database, which had lost it.";
    CliTokenCreated = "cli_token.created", "A token for automation was made.";
    CliTokenRotated = "cli_token.rotated", "A token for automation was replaced by a new one.";
    CliTokenRevoked = "cli_token.revoked", "A token for automation was ended by its owner or by itself.";
    McpTokensCreated = "mcp_tokens.created", "A pair of tokens for MCP was made.";
    TokenLeaked = "token.leaked", "A token was reported as found in the open, and was ended.";
    TokenExposed = "token.exposed", "A token was sent as content, which was refused; its owner was told.";
    UserDisabled = "user.disabled", "An operator disabled an account.";
    UserEnabled = "user.enabled", "An operator enabled an account again.";
    UserSignedOut = "user.signed_out", "An operator ended all sessions of an account.";
    WorkspaceCreated = "workspace.created", "A workspace was made.";
    WorkspaceRenamed = "workspace.renamed", "A workspace got another name.";
    MemberInvited = "member.invited", "Somebody was invited into a workspace.";
    InvitationRevoked = "invitation.revoked", "An invitation was taken back.";
    MemberJoined = "member.joined", "Somebody accepted an invitation by signing in.";
    RoleChanged = "member.role_changed", "A member got another role.";
    MemberRemoved = "member.removed", "Somebody was taken out of a workspace.";
    WorkspaceDeleted = "workspace.deleted", "A workspace was deleted.";
    EpochBumped = "epoch.bumped", "An operator ended all sessions of everybody.";
    KeyCreated = "key.created", "A signing key was made.";
    KeyRetired = "key.retired", "A signing key was retired.";
}

impl EventName {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|name| name.as_str() == text)
    }
}
