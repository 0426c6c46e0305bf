//! What the pages about single sign-on show to the owners of a workspace.

use service_api::{
    connections::{ConnectionImpact, SsoConnection, WorkspaceDomain},
    ids::Id as _,
};
use service_rules::space::Right;

use crate::{
    app::App,
    flows::{
        Actor,
        sso::{
            connections::{self, ConnectionPath},
            domains::{self, DomainClaimError},
        },
        workspaces::{
            access,
            pages::{self, WorkspaceHeader},
        },
    },
    store,
};

pub use crate::store::members::Owner;

/// The connections and the domains of a workspace.
pub struct SsoOverview {
    pub header: WorkspaceHeader,
    pub connections: Vec<SsoConnection>,
    pub domains: Vec<WorkspaceDomain>,
}

/// One connection, with the domains of its workspace.
pub struct ConnectionDetail {
    pub header: WorkspaceHeader,
    pub connection: SsoConnection,
    /// The domains whose users sign in with the connection.
    pub domains: Vec<WorkspaceDomain>,
    /// The other domains of the workspace.
    pub other_domains: Vec<WorkspaceDomain>,
}

/// What requiring a connection touches, and who could sign in without it.
pub struct Requirement {
    pub header: WorkspaceHeader,
    pub connection: SsoConnection,
    pub impact: ConnectionImpact,
    /// The owners of the workspace, by their addresses.
    pub owners: Vec<Owner>,
}

pub async fn overview(app: &App, actor: &Actor<'_>, id: &str) -> Result<SsoOverview, DomainClaimError> {
    let connections = connections::list(app, actor, id).await?.data;
    let domains = domains::list(app, actor, id).await?.data;
    Ok(SsoOverview { header: pages::header(app, actor, id).await?, connections, domains })
}

pub async fn detail(
    app: &App,
    actor: &Actor<'_>,
    path: ConnectionPath<'_>,
) -> Result<ConnectionDetail, DomainClaimError> {
    let connection = connections::find(app, actor, path).await?;
    let domains = domains::list(app, actor, path.workspace_id).await?.data;
    let (domains, other_domains) = domains.into_iter().partition(|domain| domain.connection_id == Some(connection.id));
    let header = pages::header(app, actor, path.workspace_id).await?;
    Ok(ConnectionDetail { header, connection, domains, other_domains })
}

pub async fn requirement(
    app: &App,
    actor: &Actor<'_>,
    path: ConnectionPath<'_>,
) -> Result<Requirement, DomainClaimError> {
    let connection = connections::find(app, actor, path).await?;
    let impact = connections::impact(app, actor, path).await?;
    let header = pages::header(app, actor, path.workspace_id).await?;
    let db = app.database.connect().await?;
    let id = access::enter(app, &db, actor, path.workspace_id, Right::Own).await?;
    let mut owners = store::members::list_owners(&db, id).await?;
    owners.sort_by(|a, b| (&a.email, a.user_id.uuid()).cmp(&(&b.email, b.user_id.uuid())));
    Ok(Requirement { header, connection, impact, owners })
}
