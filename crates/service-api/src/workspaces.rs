//! Workspaces, roles in them, and the space a request runs in.

use serde::{Deserialize, Serialize};

use crate::ids::WorkspaceId;

/// How a request names personal space outright.
pub const PERSONAL: &str = "personal";

/// Where content lives. Not an OAuth scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentScope {
    Personal,
    Workspace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Members and deletion, besides all that a member may do.
    Owner,
    Member,
    /// Reads; a write is refused whatever the token's scopes.
    Viewer,
}

/// Why a request runs in the space it runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Because {
    /// `workspaceId` says so.
    Query,
    /// It is the token's default.
    Token,
    /// Neither says anything.
    Personal,
}

/// The space a request runs in, as `GET /v1/whoami` shows it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpaceView {
    pub scope: ContentScope,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    pub because: Because,
}
