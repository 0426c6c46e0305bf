//! `/v1/sessions`: the active sessions of a user.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Timestamp,
    ids::{BrowserSessionId, GrantId, WorkspaceId},
    instant,
    scope::Scopes,
};

/// A page of the active sessions of a user.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionPage {
    /// The sessions of clients, the newest first.
    pub data: Vec<Session>,
    /// The browsers that the user is signed in with, the newest first. Only on the first page, which has the 100 newest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub browsers: Vec<SignedInBrowser>,
    /// The cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A browser that a user is signed in with. It is revoked like a session, by its id.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignedInBrowser {
    /// The ID of the browser's session.
    pub id: BrowserSessionId,
    /// When the user signed in.
    #[serde(with = "instant::Written")]
    pub signed_in_at: Timestamp,
    /// When it was last used. This is recorded every few minutes.
    #[serde(with = "instant::Written")]
    pub last_used_at: Timestamp,
}

/// An active session.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// The ID of the session.
    pub id: GrantId,
    /// The client that the user signed in with.
    pub client: SessionClient,
    /// The default space of its tokens. Absent: personal space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    /// The scopes of the session.
    pub scopes: Scopes,
    /// When it began.
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    /// The network address that it was opened from.
    pub created_from: String,
    /// When it was last refreshed, which happens every few minutes while it is in use.
    #[serde(with = "instant::Written")]
    pub last_used_at: Timestamp,
    /// The network address that it was last refreshed from.
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
    /// The ID of the client.
    pub id: String,
    /// The name of the client.
    pub name: String,
}

/// The result of revoking all other sessions.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct OthersEnded {
    /// The number of revoked sessions, without browsers.
    pub ended: u64,
    /// The number of browsers that were signed out.
    #[serde(default)]
    pub browsers: u64,
}
