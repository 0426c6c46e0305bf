//! `/v1/sessions`: the active sessions of a user.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Timestamp,
    ids::{GrantId, WorkspaceId},
    instant,
    scope::Scopes,
};

/// An active session.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    pub id: GrantId,
    pub client: SessionClient,
    /// The default space of its tokens. Absent: personal space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    pub scopes: Scopes,
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    /// The network address that it was opened from.
    pub created_from: String,
    /// When it was last refreshed, which happens every few minutes while it is in use.
    #[serde(with = "instant::Written")]
    pub last_used_at: Timestamp,
    pub last_used_from: String,
    /// When it expires, even if it stays in use.
    #[serde(with = "instant::Written")]
    pub expires_at: Timestamp,
    /// Whether the request has a token of this session.
    pub current: bool,
    /// The session that made it: for MCP tokens the session that created them, for an app the browser in which its user
    /// consented. Absent: its user signed in with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_by: Option<String>,
}

/// What happens to the tokens and invitations that a session made when its user revokes it: the query parameter `made`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MadeTreatment {
    /// Revoke MCP tokens and invitations, and the CLI tokens that were not used in the last 7 days.
    #[default]
    Recommended,
    /// Revoke nothing.
    Keep,
    /// Revoke everything.
    Revoke,
}

impl MadeTreatment {
    pub const ALL: [Self; 3] = [Self::Recommended, Self::Keep, Self::Revoke];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Recommended => "recommended",
            Self::Keep => "keep",
            Self::Revoke => "revoke",
        }
    }

    /// Parses the parameter; the default if it is absent, `None` if its value is unknown.
    #[must_use]
    pub fn parse(text: Option<&str>) -> Option<Self> {
        text.map_or(Some(Self::default()), |text| Self::ALL.into_iter().find(|known| known.as_str() == text))
    }
}

/// The client of a session.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct SessionClient {
    pub id: String,
    pub name: String,
}

/// The result of revoking all other sessions.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct OthersEnded {
    /// The number of revoked sessions.
    pub ended: u64,
}
