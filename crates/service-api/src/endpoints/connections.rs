//! Single sign-on of a workspace: connections to identity providers, and domains.

use super::{
    Access::{Bearer, RecentSignIn, SignedIn},
    operation::{delete, get, operations, patch, post},
};
use crate::{
    connections::{
        ClaimDomain, ConnectionImpact, CreateConnection, SsoConnection, UpdateConnection, UpdateDomain, WorkspaceDomain,
    },
    errors::ErrorCode::*,
    page::Page,
    scope::{Action, Resource, Scope},
};

const READ: Scope = Scope::of(Action::Read, Resource::Workspaces);
const WRITE: Scope = Scope::of(Action::Write, Resource::Workspaces);

operations! {
    /// List the connections of a workspace (owners only)
    LIST_CONNECTIONS(Connections, "listConnections"): () => Page<SsoConnection> =
        get("/v1/workspaces/{workspaceId}/connections", Bearer(READ))
            .returns(200)
            .fails(&[NotFound, WorkspaceMismatch, Forbidden]);

    /// Create a connection to an identity provider (owners only)
    CREATE_CONNECTION(Connections, "createConnection"): CreateConnection => SsoConnection =
        post("/v1/workspaces/{workspaceId}/connections", RecentSignIn(WRITE))
            .takes()
            .returns(201)
            .located()
            .fails(&[NotFound, WorkspaceMismatch, Forbidden, Conflict, ValidationFailed]);

    /// Get a connection (owners only)
    READ_CONNECTION(Connections, "readConnection"): () => SsoConnection =
        get("/v1/workspaces/{workspaceId}/connections/{connectionId}", Bearer(READ))
            .returns(200)
            .fails(&[NotFound, WorkspaceMismatch, Forbidden]);

    /// Update a connection (owners only, partial)
    UPDATE_CONNECTION(Connections, "updateConnection"): UpdateConnection => SsoConnection =
        patch("/v1/workspaces/{workspaceId}/connections/{connectionId}", RecentSignIn(WRITE))
            .takes()
            .returns(200)
            .fails(&[NotFound, WorkspaceMismatch, Forbidden, Conflict, ValidationFailed]);

    /// Delete a connection (owners only, idempotent)
    DELETE_CONNECTION(Connections, "deleteConnection"): () => () =
        delete("/v1/workspaces/{workspaceId}/connections/{connectionId}", RecentSignIn(WRITE))
            .fails(&[NotFound, WorkspaceMismatch, Forbidden]);

    /// Count what requiring a connection would revoke (owners only)
    CONNECTION_IMPACT(Connections, "connectionImpact"): () => ConnectionImpact =
        get("/v1/workspaces/{workspaceId}/connections/{connectionId}/impact", Bearer(READ))
            .returns(200)
            .fails(&[NotFound, WorkspaceMismatch, Forbidden]);

    /// List the domains of a workspace (owners only)
    LIST_DOMAINS(Connections, "listDomains"): () => Page<WorkspaceDomain> =
        get("/v1/workspaces/{workspaceId}/domains", Bearer(READ))
            .returns(200)
            .fails(&[NotFound, WorkspaceMismatch, Forbidden]);

    /// Claim a domain (owners only)
    CLAIM_DOMAIN(Connections, "claimDomain"): ClaimDomain => WorkspaceDomain =
        post("/v1/workspaces/{workspaceId}/domains", RecentSignIn(WRITE))
            .takes()
            .returns(201)
            .located()
            .fails(&[NotFound, WorkspaceMismatch, Forbidden, Conflict, ValidationFailed]);

    /// Look for the DNS record of a domain now (owners only)
    VERIFY_DOMAIN(Connections, "verifyDomain"): () => WorkspaceDomain =
        post("/v1/workspaces/{workspaceId}/domains/{domain}/verify", SignedIn(WRITE))
            .returns(200)
            .fails(&[NotFound, WorkspaceMismatch, Forbidden, Conflict, RateLimited]);

    /// Choose the connection of a domain (owners only)
    UPDATE_DOMAIN(Connections, "updateDomain"): UpdateDomain => WorkspaceDomain =
        patch("/v1/workspaces/{workspaceId}/domains/{domain}", RecentSignIn(WRITE))
            .takes()
            .returns(200)
            .fails(&[NotFound, WorkspaceMismatch, Forbidden]);

    /// Remove a domain (owners only, idempotent)
    REMOVE_DOMAIN(Connections, "removeDomain"): () => () =
        delete("/v1/workspaces/{workspaceId}/domains/{domain}", RecentSignIn(WRITE))
            .fails(&[NotFound, WorkspaceMismatch, Forbidden]);
}
