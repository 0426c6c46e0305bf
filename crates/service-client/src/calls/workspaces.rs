//! Workspaces, members and invitations.

use service_api::{
    endpoints,
    ids::{InvitationId, UserId, WorkspaceId},
    page::Page,
    token::AccessToken,
    workspaces::{
        BlockedWorkspace, ChangeRole, Invitation, Invite, Member, NameWorkspace, ReceivedInvitation, RenameWorkspace,
        Role, Workspace,
    },
};

use crate::{Client, Error};

/// Workspaces, members and invitations.
///
/// # Errors
/// [`Error::Refused`] with `not_found` if the user is not a member of the workspace or there is no such invitation, with
/// `forbidden` if the user is not an owner, with `conflict` if the last owner would be lost.
impl Client {
    /// Lists the workspaces of the user.
    pub async fn list_workspaces(&self, token: &AccessToken, cursor: Option<&str>) -> Result<Page<Workspace>, Error> {
        self.call(&endpoints::LIST_WORKSPACES, &[]).bearer(token).query(&[("cursor", cursor)]).send().await
    }

    /// Creates a workspace, which the user owns.
    pub async fn create_workspace(&self, token: &AccessToken, name: &str) -> Result<Workspace, Error> {
        let body = NameWorkspace { name: name.to_owned() };
        self.call_with(&endpoints::CREATE_WORKSPACE, &[], &body).bearer(token).send().await
    }

    /// Gets a workspace.
    pub async fn read_workspace(&self, token: &AccessToken, id: WorkspaceId) -> Result<Workspace, Error> {
        self.call(&endpoints::READ_WORKSPACE, &[&id.to_string()]).bearer(token).send().await
    }

    /// Renames a workspace.
    pub async fn rename_workspace(&self, token: &AccessToken, id: WorkspaceId, name: &str) -> Result<Workspace, Error> {
        let body = RenameWorkspace { name: Some(name.to_owned()) };
        self.call_with(&endpoints::RENAME_WORKSPACE, &[&id.to_string()], &body).bearer(token).send().await
    }

    /// Deletes a workspace for all its members.
    pub async fn delete_workspace(&self, token: &AccessToken, id: WorkspaceId) -> Result<(), Error> {
        self.call(&endpoints::DELETE_WORKSPACE, &[&id.to_string()]).bearer(token).send().await
    }

    /// Requires a passkey from the members of a workspace: others lose access until their account requires one. Fails with
    /// `insufficient_user_authentication` if the user signed in more than 15 minutes ago, and with `conflict` if the account of the
    /// user requires none.
    pub async fn require_workspace_passkey(&self, token: &AccessToken, id: WorkspaceId) -> Result<Workspace, Error> {
        self.call(&endpoints::REQUIRE_WORKSPACE_PASSKEY, &[&id.to_string()]).bearer(token).send().await
    }

    /// Stops requiring a passkey from the members of a workspace. Fails with `insufficient_user_authentication` if the user signed in more
    /// than 15 minutes ago.
    pub async fn allow_workspace_codes(&self, token: &AccessToken, id: WorkspaceId) -> Result<(), Error> {
        self.call(&endpoints::ALLOW_WORKSPACE_CODES, &[&id.to_string()]).bearer(token).send().await
    }

    /// Lists the members of a workspace.
    pub async fn list_members(
        &self,
        token: &AccessToken,
        id: WorkspaceId,
        cursor: Option<&str>,
    ) -> Result<Page<Member>, Error> {
        self.call(&endpoints::LIST_MEMBERS, &[&id.to_string()]).bearer(token).query(&[("cursor", cursor)]).send().await
    }

    /// Changes the role of a member.
    pub async fn change_role(
        &self,
        token: &AccessToken,
        id: WorkspaceId,
        user: UserId,
        role: Role,
    ) -> Result<Member, Error> {
        let ids = [&*id.to_string(), &*user.to_string()];
        self.call_with(&endpoints::CHANGE_ROLE, &ids, &ChangeRole { role: Some(role) }).bearer(token).send().await
    }

    /// Removes a member from a workspace. A member can remove themselves.
    pub async fn remove_member(&self, token: &AccessToken, id: WorkspaceId, user: UserId) -> Result<(), Error> {
        self.call(&endpoints::REMOVE_MEMBER, &[&id.to_string(), &user.to_string()]).bearer(token).send().await
    }

    /// Lists the pending invitations of a workspace.
    pub async fn list_invitations(&self, token: &AccessToken, id: WorkspaceId) -> Result<Page<Invitation>, Error> {
        self.call(&endpoints::LIST_INVITATIONS, &[&id.to_string()]).bearer(token).send().await
    }

    /// Invites a user to a workspace by email.
    pub async fn invite(&self, token: &AccessToken, id: WorkspaceId, invite: &Invite) -> Result<Invitation, Error> {
        self.call_with(&endpoints::INVITE, &[&id.to_string()], invite).bearer(token).send().await
    }

    /// Revokes a pending invitation of a workspace.
    pub async fn revoke_invitation(
        &self,
        token: &AccessToken,
        id: WorkspaceId,
        invitation: InvitationId,
    ) -> Result<(), Error> {
        let ids = [&*id.to_string(), &*invitation.to_string()];
        self.call(&endpoints::REVOKE_INVITATION, &ids).bearer(token).send().await
    }

    /// Lists the pending invitations to the email addresses of the user.
    pub async fn list_received_invitations(
        &self,
        token: &AccessToken,
        cursor: Option<&str>,
    ) -> Result<Page<ReceivedInvitation>, Error> {
        self.call(&endpoints::LIST_RECEIVED_INVITATIONS, &[]).bearer(token).query(&[("cursor", cursor)]).send().await
    }

    /// Accepts an invitation: joins its workspace.
    pub async fn accept_invitation(&self, token: &AccessToken, id: InvitationId) -> Result<Workspace, Error> {
        self.call(&endpoints::ACCEPT_INVITATION, &[&id.to_string()]).bearer(token).send().await
    }

    /// Declines an invitation. The workspace is not notified.
    pub async fn decline_invitation(&self, token: &AccessToken, id: InvitationId) -> Result<(), Error> {
        self.call(&endpoints::DECLINE_INVITATION, &[&id.to_string()]).bearer(token).send().await
    }

    /// Blocks further invitations of the workspace that sent an invitation. The workspace is not notified.
    pub async fn block_invitation(&self, token: &AccessToken, id: InvitationId) -> Result<BlockedWorkspace, Error> {
        self.call(&endpoints::BLOCK_INVITATION, &[&id.to_string()]).bearer(token).send().await
    }

    /// Lists the workspaces whose invitations the user blocks.
    pub async fn list_blocked_workspaces(
        &self,
        token: &AccessToken,
        cursor: Option<&str>,
    ) -> Result<Page<BlockedWorkspace>, Error> {
        self.call(&endpoints::LIST_BLOCKED_WORKSPACES, &[]).bearer(token).query(&[("cursor", cursor)]).send().await
    }

    /// Unblocks the invitations of a workspace.
    pub async fn unblock_workspace(&self, token: &AccessToken, id: WorkspaceId) -> Result<(), Error> {
        self.call(&endpoints::UNBLOCK_WORKSPACE, &[&id.to_string()]).bearer(token).send().await
    }
}
