//! Workspaces, roles in them, and the space a request runs in.

use serde::{Deserialize, Serialize};

use crate::{
    Timestamp,
    ids::{InvitationId, UserId, WorkspaceId},
    instant,
};

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

/// Characters of a workspace's name.
pub const MAX_NAME: usize = 100;

/// A workspace, as somebody in it sees it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workspace {
    pub id: WorkspaceId,
    pub name: String,
    /// The caller's own.
    pub role: Role,
    #[serde(with = "instant")]
    pub created_at: Timestamp,
}

/// `POST /v1/workspaces` and `PATCH /v1/workspaces/{workspaceId}`
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NameWorkspace {
    pub name: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    pub user_id: UserId,
    pub email: String,
    pub role: Role,
    #[serde(with = "instant")]
    pub joined_at: Timestamp,
}

/// `PATCH /v1/workspaces/{workspaceId}/members/{userId}`
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeRole {
    pub role: Role,
}

/// `POST /v1/workspaces/{workspaceId}/invitations`
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invite {
    pub email: String,
    /// `member` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}

/// An invitation that waits for its address to sign in.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Invitation {
    pub id: InvitationId,
    pub email: String,
    pub role: Role,
    #[serde(with = "instant")]
    pub created_at: Timestamp,
    #[serde(with = "instant")]
    pub expires_at: Timestamp,
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
