//! Workspaces, roles in them, and the space a request runs in.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::{
    Timestamp,
    forms::ONE_LINE,
    ids::{self, Id as _, InvitationId, UserId, WorkspaceId},
    instant,
};

/// How a request names personal space outright.
pub const PERSONAL: &str = "personal";

/// What a space that a request names looks like: a workspace's id, or `personal`.
pub(crate) fn named_space(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": format!("^{PERSONAL}$|{}", ids::pattern(WorkspaceId::KIND)) })
}

/// The same where it may be left out.
pub(crate) fn named_space_or_null(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [named_space(generator), { "type": "null" }] })
}

/// Where content lives. Not an OAuth scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContentScope {
    Personal,
    Workspace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Members and deletion, besides all that a member may do.
    Owner,
    Member,
    /// Reads; a write is refused whatever the token's scopes.
    Viewer,
}

/// Why a request runs in the space it runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workspace {
    pub id: WorkspaceId,
    pub name: String,
    /// The caller's own.
    pub role: Role,
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
}

/// `POST /v1/workspaces` and `PATCH /v1/workspaces/{workspaceId}`
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NameWorkspace {
    #[schemars(length(min = 1, max = MAX_NAME), regex(pattern = ONE_LINE))]
    pub name: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    pub user_id: UserId,
    pub email: String,
    pub role: Role,
    #[serde(with = "instant::Written")]
    pub joined_at: Timestamp,
}

/// `PATCH /v1/workspaces/{workspaceId}/members/{userId}`
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeRole {
    pub role: Role,
}

/// `POST /v1/workspaces/{workspaceId}/invitations`
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Invite {
    #[schemars(email)]
    pub email: String,
    /// `member` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}

/// An invitation that waits for its address to sign in.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Invitation {
    pub id: InvitationId,
    pub email: String,
    pub role: Role,
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    #[serde(with = "instant::Written")]
    pub expires_at: Timestamp,
}

/// The space a request runs in, as `GET /v1/whoami` shows it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpaceView {
    pub scope: ContentScope,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    pub because: Because,
}
