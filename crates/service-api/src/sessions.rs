//! `/v1/sessions`: where somebody is signed in, and ending it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Timestamp,
    ids::{GrantId, WorkspaceId},
    instant,
    scope::Scopes,
};

/// One sign-in that still lives.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    pub id: GrantId,
    pub client: SessionClient,
    /// The space its tokens work in when a request names none; absent: personal space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    pub scopes: Scopes,
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    /// The address it was opened from.
    pub created_from: String,
    /// When it last fetched a new access token, which is every few minutes while it is in use.
    #[serde(with = "instant::Written")]
    pub last_used_at: Timestamp,
    pub last_used_from: String,
    /// When it ends even if it stays in use.
    #[serde(with = "instant::Written")]
    pub expires_at: Timestamp,
    /// Whether the request that asks is itself part of this session.
    pub current: bool,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct SessionClient {
    pub id: String,
    pub name: String,
}

/// What ending all other sessions did.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct OthersEnded {
    pub ended: u64,
}
