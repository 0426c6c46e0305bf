//! Where the users of a domain sign in: the rows of `routed_domains`, which follow from the domains and the connections of a
//! workspace. Every flow that changes either writes them again in the same transaction.
//!
//! A transaction locks the workspace first, then rows of `routed_domains` in the order of their domains, then others.

use service_api::ids::WorkspaceId;
use service_rules::{Timestamp, email::Address};

use crate::{
    app::App,
    database::{Connection, Error},
    flows::sign_in::email_key::domain_key,
    store::{self, connections::StoredConnection, routed_domains::Route, workspace_domains::StoredDomain},
};

/// Where users with this address sign in. `None`: by a code.
pub async fn find(app: &App, address: &Address) -> Result<Option<Route>, Error> {
    let db = app.database.connect().await?;
    find_in(app, &db, address).await
}

/// Reads where users with this address sign in: one row by primary key, whether the domain is known or not.
pub(crate) async fn find_in(app: &App, db: &Connection, address: &Address) -> Result<Option<Route>, Error> {
    let key = domain_key(app, db, address.domain()).await?;
    store::routed_domains::find(db, key.domain, key.shard).await
}

/// Writes the routes of all verified domains of a workspace again.
pub async fn rewrite(app: &App, db: &Connection, workspace_id: WorkspaceId) -> Result<(), Error> {
    let connections = store::connections::list(db, workspace_id).await?;
    for domain in store::workspace_domains::list(db, workspace_id).await? {
        if domain.verified_at.is_some() {
            write(app, db, &domain, &connections).await?;
        }
    }
    Ok(())
}

/// Writes the route of a verified domain; `false`: another workspace has verified the domain.
pub(super) async fn write(
    app: &App,
    db: &Connection,
    domain: &StoredDomain,
    connections: &[StoredConnection],
) -> Result<bool, Error> {
    let enabled =
        |connection: &&StoredConnection| Some(connection.id) == domain.connection_id && connection.enabled_at.is_some();
    let route = connections.iter().find(enabled).map(|connection| Route {
        workspace_id: domain.workspace_id,
        connection_id: connection.id,
        name: connection.name.clone(),
        required: connection.required_at.is_some(),
    });
    let key = domain_key(app, db, &domain.domain).await?;
    store::routed_domains::replace(db, key, domain.workspace_id, route.as_ref(), app.clock.now()).await
}

/// Deletes the route of a domain, if it leads to this workspace.
pub(super) async fn remove(app: &App, db: &Connection, workspace_id: WorkspaceId, domain: &str) -> Result<(), Error> {
    store::routed_domains::delete(db, domain_key(app, db, domain).await?, workspace_id).await
}

/// Locks the route of a domain, and returns the workspace that has verified it.
pub(super) async fn lock(app: &App, db: &Connection, domain: &str) -> Result<Option<WorkspaceId>, Error> {
    store::routed_domains::lock_holder(db, domain_key(app, db, domain).await?).await
}

/// Locks the routes of all verified domains of a workspace.
pub(super) async fn lock_all(app: &App, db: &Connection, workspace_id: WorkspaceId) -> Result<(), Error> {
    for domain in store::workspace_domains::list(db, workspace_id).await? {
        // A route that a domain without proof would have is another workspace's.
        if domain.verified_at.is_some() {
            lock(app, db, &domain.domain).await?;
        }
    }
    Ok(())
}

/// Deletes the connections, the domains and the routes of a workspace that is deleted.
pub async fn delete_workspace(app: &App, db: &Connection, id: WorkspaceId, now: Timestamp) -> Result<(), Error> {
    lock_all(app, db, id).await?;
    for domain in store::workspace_domains::list(db, id).await? {
        remove(app, db, id, &domain.domain).await?;
        store::workspace_domains::delete(db, id, &domain.domain).await?;
    }
    for connection in store::connections::list(db, id).await? {
        delete_connection(db, &connection, now).await?;
    }
    Ok(())
}

/// Deletes a connection with the identities of its users. Their sessions and tokens no longer depend on it.
pub(super) async fn delete_connection(
    db: &Connection,
    connection: &StoredConnection,
    now: Timestamp,
) -> Result<(), Error> {
    store::connections::mark_deleted(db, connection.workspace_id, connection.id, now).await?;
    store::workspace_domains::detach_connection(db, connection.workspace_id, connection.id).await?;
    store::identities::delete_by_connection(db, connection.id).await?;
    store::user_connections::delete_by_connection(db, connection.id).await.map(drop)
}
