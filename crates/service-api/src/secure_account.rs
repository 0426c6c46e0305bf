//! `POST /v1/account/secure`: revokes everything but the session in use.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::PasskeyId;

/// `POST /v1/account/secure`
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecureAccount {
    /// The passkeys that stay. Absent: those that were added more than 7 days ago.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20))]
    pub keep_passkeys: Option<Vec<PasskeyId>>,
}

/// What was revoked.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecuredAccount {
    /// The number of sessions, with MCP tokens and those of apps.
    pub sessions: u64,
    /// The number of browsers that were signed out.
    pub browsers: u64,
    /// The number of CLI tokens.
    pub cli_tokens: u64,
    /// The number of apps whose access was removed.
    pub apps: u64,
    /// The number of invitations to workspaces that were not accepted yet.
    pub invitations: u64,
    /// The number of passkeys.
    pub passkeys: u64,
}

impl SecuredAccount {
    /// Whether nothing was revoked.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        let Self { sessions, browsers, cli_tokens, apps, invitations, passkeys } = self;
        *sessions + *browsers + *cli_tokens + *apps + *invitations + *passkeys == 0
    }
}
