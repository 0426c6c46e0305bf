//! Connections to identity providers, and domains.

use service_api::{
    connections::{
        Change, ClaimDomain, ConnectionImpact, CreateConnection, SsoConnection, UpdateConnection, UpdateDomain,
        WorkspaceDomain,
    },
    endpoints,
    ids::{ConnectionId, WorkspaceId},
    page::Page,
    token::AccessToken,
};

use crate::{Client, Error};

/// Connections to identity providers, and domains. All of them need the role `owner`.
///
/// # Errors
/// [`Error::Refused`] with `not_found` if the user is not a member of the workspace or it has no such connection or domain,
/// with `forbidden` if the user is not an owner, with `insufficient_user_authentication` if a change needs a more recent
/// sign-in, with `conflict` if the state of the connection or domain does not allow it, with `validation_failed` if a field is
/// invalid.
impl Client {
    /// Lists the connections of a workspace.
    pub async fn list_connections(
        &self,
        token: &AccessToken,
        workspace: WorkspaceId,
    ) -> Result<Page<SsoConnection>, Error> {
        self.call(&endpoints::LIST_CONNECTIONS, &[&workspace.to_string()]).bearer(token).send().await
    }

    /// Creates a connection, which is not enabled.
    pub async fn create_connection(
        &self,
        token: &AccessToken,
        workspace: WorkspaceId,
        new: &CreateConnection,
    ) -> Result<SsoConnection, Error> {
        self.call_with(&endpoints::CREATE_CONNECTION, &[&workspace.to_string()], new).bearer(token).send().await
    }

    /// Gets a connection.
    pub async fn read_connection(
        &self,
        token: &AccessToken,
        workspace: WorkspaceId,
        id: ConnectionId,
    ) -> Result<SsoConnection, Error> {
        let ids = [&*workspace.to_string(), &*id.to_string()];
        self.call(&endpoints::READ_CONNECTION, &ids).bearer(token).send().await
    }

    /// Changes a connection. Fields that are left out stay as they are.
    pub async fn update_connection(
        &self,
        token: &AccessToken,
        workspace: WorkspaceId,
        id: ConnectionId,
        update: &UpdateConnection,
    ) -> Result<SsoConnection, Error> {
        let ids = [&*workspace.to_string(), &*id.to_string()];
        self.call_with(&endpoints::UPDATE_CONNECTION, &ids, update).bearer(token).send().await
    }

    /// Deletes a connection with the identities of its users.
    pub async fn delete_connection(
        &self,
        token: &AccessToken,
        workspace: WorkspaceId,
        id: ConnectionId,
    ) -> Result<(), Error> {
        let ids = [&*workspace.to_string(), &*id.to_string()];
        self.call(&endpoints::DELETE_CONNECTION, &ids).bearer(token).send().await
    }

    /// Counts what requiring a connection would revoke.
    pub async fn connection_impact(
        &self,
        token: &AccessToken,
        workspace: WorkspaceId,
        id: ConnectionId,
    ) -> Result<ConnectionImpact, Error> {
        let ids = [&*workspace.to_string(), &*id.to_string()];
        self.call(&endpoints::CONNECTION_IMPACT, &ids).bearer(token).send().await
    }

    /// Lists the domains of a workspace.
    pub async fn list_domains(
        &self,
        token: &AccessToken,
        workspace: WorkspaceId,
    ) -> Result<Page<WorkspaceDomain>, Error> {
        self.call(&endpoints::LIST_DOMAINS, &[&workspace.to_string()]).bearer(token).send().await
    }

    /// Claims a domain. The response has the DNS record to add.
    pub async fn claim_domain(
        &self,
        token: &AccessToken,
        workspace: WorkspaceId,
        claim: &ClaimDomain,
    ) -> Result<WorkspaceDomain, Error> {
        self.call_with(&endpoints::CLAIM_DOMAIN, &[&workspace.to_string()], claim).bearer(token).send().await
    }

    /// Looks for the DNS record of a domain now. The response says whether it was found.
    pub async fn verify_domain(
        &self,
        token: &AccessToken,
        workspace: WorkspaceId,
        domain: &str,
    ) -> Result<WorkspaceDomain, Error> {
        self.call(&endpoints::VERIFY_DOMAIN, &[&workspace.to_string(), domain]).bearer(token).send().await
    }

    /// Chooses the connection that users of a domain sign in with.
    pub async fn update_domain(
        &self,
        token: &AccessToken,
        workspace: WorkspaceId,
        domain: &str,
        connection_id: Option<ConnectionId>,
    ) -> Result<WorkspaceDomain, Error> {
        let body = UpdateDomain { connection_id: connection_id.map_or(Change::Remove, Change::Set) };
        self.call_with(&endpoints::UPDATE_DOMAIN, &[&workspace.to_string(), domain], &body).bearer(token).send().await
    }

    /// Removes a domain. Its users sign in by email code again.
    pub async fn remove_domain(&self, token: &AccessToken, workspace: WorkspaceId, domain: &str) -> Result<(), Error> {
        self.call(&endpoints::REMOVE_DOMAIN, &[&workspace.to_string(), domain]).bearer(token).send().await
    }
}
