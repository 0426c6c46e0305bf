//! Workspaces, who is in them, and who is asked to join.

use service_api::{
    endpoints,
    ids::{InvitationId, UserId, WorkspaceId},
    page::Page,
    token::AccessToken,
    workspaces::{ChangeRole, Invitation, Invite, Member, NameWorkspace, Role, Workspace},
};

use crate::{Client, Error};

impl Client {
    pub async fn list_workspaces(&self, token: &AccessToken, cursor: Option<&str>) -> Result<Page<Workspace>, Error> {
        self.call(&endpoints::LIST_WORKSPACES, &[]).bearer(token).query(&[("cursor", cursor)]).answer().await
    }

    pub async fn create_workspace(&self, token: &AccessToken, name: &str) -> Result<Workspace, Error> {
        let body = NameWorkspace { name: name.to_owned() };
        self.call(&endpoints::CREATE_WORKSPACE, &[]).bearer(token).json(&body).answer().await
    }

    pub async fn read_workspace(&self, token: &AccessToken, id: WorkspaceId) -> Result<Workspace, Error> {
        self.call(&endpoints::READ_WORKSPACE, &[&id.to_string()]).bearer(token).answer().await
    }

    pub async fn rename_workspace(&self, token: &AccessToken, id: WorkspaceId, name: &str) -> Result<Workspace, Error> {
        let body = NameWorkspace { name: name.to_owned() };
        self.call(&endpoints::RENAME_WORKSPACE, &[&id.to_string()]).bearer(token).json(&body).answer().await
    }

    pub async fn delete_workspace(&self, token: &AccessToken, id: WorkspaceId) -> Result<(), Error> {
        self.call(&endpoints::DELETE_WORKSPACE, &[&id.to_string()]).bearer(token).done().await
    }

    pub async fn list_members(&self, token: &AccessToken, id: WorkspaceId) -> Result<Page<Member>, Error> {
        self.call(&endpoints::LIST_MEMBERS, &[&id.to_string()]).bearer(token).answer().await
    }

    pub async fn change_role(
        &self,
        token: &AccessToken,
        id: WorkspaceId,
        user: UserId,
        role: Role,
    ) -> Result<Member, Error> {
        let ids = [&*id.to_string(), &*user.to_string()];
        self.call(&endpoints::CHANGE_ROLE, &ids).bearer(token).json(&ChangeRole { role }).answer().await
    }

    pub async fn remove_member(&self, token: &AccessToken, id: WorkspaceId, user: UserId) -> Result<(), Error> {
        self.call(&endpoints::REMOVE_MEMBER, &[&id.to_string(), &user.to_string()]).bearer(token).done().await
    }

    pub async fn list_invitations(&self, token: &AccessToken, id: WorkspaceId) -> Result<Page<Invitation>, Error> {
        self.call(&endpoints::LIST_INVITATIONS, &[&id.to_string()]).bearer(token).answer().await
    }

    pub async fn invite(&self, token: &AccessToken, id: WorkspaceId, invite: &Invite) -> Result<Invitation, Error> {
        self.call(&endpoints::INVITE, &[&id.to_string()]).bearer(token).json(invite).answer().await
    }

    pub async fn revoke_invitation(
        &self,
        token: &AccessToken,
        id: WorkspaceId,
        invitation: InvitationId,
    ) -> Result<(), Error> {
        let ids = [&*id.to_string(), &*invitation.to_string()];
        self.call(&endpoints::REVOKE_INVITATION, &ids).bearer(token).done().await
    }
}
