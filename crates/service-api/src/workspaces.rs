//! Workspaces, members, invitations, and the space that a request runs in.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    Timestamp,
    forms::ONE_LINE,
    ids::{self, Id as _, InvitationId, UserId, WorkspaceId},
    instant,
};

/// The value of `workspaceId` for personal space.
pub const PERSONAL: &str = "personal";

/// The schema of a space in a request: a workspace's id, or `personal`.
pub(crate) fn named_space(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": format!("^{PERSONAL}$|{}", ids::pattern(WorkspaceId::KIND)) })
}

/// The schema of an optional space in a request: a workspace's id, `personal`, or `null`.
pub(crate) fn named_space_or_null(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [named_space(generator), { "type": "null" }] })
}

/// Whether content is in personal space or in a workspace. Not an OAuth scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContentScope {
    Personal,
    Workspace,
}

/// The role of a member in a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Manages members and deletes the workspace, and has the rights of a member.
    Owner,
    /// Reads and writes.
    Member,
    /// Reads. A write is rejected, whatever the scopes of the token.
    Viewer,
}

impl Role {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Member => "member",
            Self::Viewer => "viewer",
        }
    }
}

/// What selected the space of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpaceSource {
    /// `workspaceId` of the request.
    Query,
    /// The default space of the token.
    Token,
    /// Neither names a space, so it is personal space.
    Personal,
}

/// The maximum length of a workspace's name, in characters.
pub const MAX_NAME: usize = 100;

/// A workspace, as one of its members sees it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workspace {
    /// The ID of the workspace.
    pub id: WorkspaceId,
    /// The name of the workspace.
    pub name: String,
    /// The role of the caller.
    pub role: Role,
    /// Whether the workspace keeps out members whose account does not require a passkey.
    // Nodes of an older version do not send it.
    #[serde(default)]
    #[schemars(required)]
    pub requires_passkey: bool,
    /// When it was created.
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
}

/// Reads an optional field that must not be `null`.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// `PATCH /v1/workspaces/{workspaceId}`
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenameWorkspace {
    /// The new name.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "String", length(min = 1, max = MAX_NAME), regex(pattern = ONE_LINE))]
    pub name: Option<String>,
}

/// `POST /v1/workspaces`
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NameWorkspace {
    /// The name. Everyone whom the workspace invites can read it.
    #[schemars(length(min = 1, max = MAX_NAME), regex(pattern = ONE_LINE))]
    pub name: String,
}

/// A member of a workspace.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// The ID of the user.
    pub user_id: UserId,
    /// The email address of the user.
    pub email: String,
    /// The name that the user chose. Absent: none. Tell users apart by their address, because anyone can choose any name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub name: Option<String>,
    /// The role of the user in the workspace.
    pub role: Role,
    /// When the user became a member.
    #[serde(with = "instant::Written")]
    pub joined_at: Timestamp,
}

/// `PATCH /v1/workspaces/{workspaceId}/members/{userId}`
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeRole {
    /// The new role.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Role")]
    pub role: Option<Role>,
}

/// `POST /v1/workspaces/{workspaceId}/invitations`
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Invite {
    /// The email address to invite.
    #[schemars(email)]
    pub email: String,
    /// The role that accepting gives. Default: `member`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}

/// An invitation, as the workspace sees it: pending until the invited user accepts it, or it expires.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Invitation {
    /// The ID of the invitation.
    pub id: InvitationId,
    /// The invited email address.
    pub email: String,
    /// The role that accepting gives.
    pub role: Role,
    /// When it was created.
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    /// When it expires.
    #[serde(with = "instant::Written")]
    pub expires_at: Timestamp,
}

/// A pending invitation to one of the caller's email addresses.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReceivedInvitation {
    /// The ID of the invitation.
    pub id: InvitationId,
    /// The workspace that the user is invited to.
    pub workspace_id: WorkspaceId,
    /// The name of the workspace.
    pub workspace_name: String,
    /// The invited email address.
    pub email: String,
    /// The role that accepting gives.
    pub role: Role,
    /// The email address of the owner who sent it.
    pub invited_by: String,
    /// When it was created.
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    /// When it expires.
    #[serde(with = "instant::Written")]
    pub expires_at: Timestamp,
}

/// A workspace whose invitations the caller blocks.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockedWorkspace {
    /// The ID of the workspace.
    pub workspace_id: WorkspaceId,
    /// The name that it had when it was blocked.
    pub name: String,
    /// When it was blocked.
    #[serde(with = "instant::Written")]
    pub blocked_at: Timestamp,
}

/// The space of a request, as `GET /v1/whoami` returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpaceView {
    /// Whether the request runs in personal space or in a workspace.
    pub scope: ContentScope,
    /// The workspace. Absent: personal space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    /// The role of the user in the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// What selected the space.
    pub because: SpaceSource,
}
