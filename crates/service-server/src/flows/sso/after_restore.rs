//! What is repeated after the database was restored from a backup: connections that were deleted or disabled since, and
//! domains that were removed or lost. Otherwise users would be sent to a provider that their company has given up.

use serde_json::Value;
use service_api::{
    audit_events::EventName,
    ids::{ConnectionId, WorkspaceId},
};
use service_rules::{Timestamp, domains::FAILURES_UNTIL_LOST};

use crate::{
    app::App,
    database::{Connection, Error},
    flows::sso::routes,
    store,
};

/// An event about connections or domains that was recorded after the backup.
#[derive(Clone, Copy, Debug)]
pub struct LaterEvent<'a> {
    pub name: EventName,
    pub workspace_id: WorkspaceId,
    pub details: &'a Value,
}

/// Repeats what an event took away. Returns whether that changed anything.
pub async fn repeat(app: &App, db: &Connection, event: LaterEvent<'_>, now: Timestamp) -> Result<bool, Error> {
    let domain = event.details["domain"].as_str();
    let connection_id = event.details["connection"].as_str().and_then(|id| id.parse::<ConnectionId>().ok());
    match (event.name, connection_id, domain) {
        (EventName::ConnectionDeleted, Some(id), _) => change_connection(app, db, event, id, Some(now)).await,
        (EventName::ConnectionEnabled, Some(id), _) if event.details["enabled"] == false => {
            change_connection(app, db, event, id, None).await
        }
        (EventName::DomainRemoved | EventName::DomainLost, _, Some(domain)) => {
            lose_domain(app, db, event, domain).await
        }
        _ => Ok(false),
    }
}

/// Deletes a connection, or disables it if no time of deletion is given.
async fn change_connection(
    app: &App,
    db: &Connection,
    event: LaterEvent<'_>,
    id: ConnectionId,
    deleted_at: Option<Timestamp>,
) -> Result<bool, Error> {
    let found = store::connections::find(db, id).await?;
    let Some(mut connection) = found.filter(|connection| connection.workspace_id == event.workspace_id) else {
        return Ok(false);
    };
    routes::lock_all(app, db, event.workspace_id).await?;
    if let Some(now) = deleted_at {
        routes::delete_connection(db, &connection, now).await?;
    } else if connection.enabled_at.is_some() {
        (connection.enabled_at, connection.required_at, connection.revoke_before) = (None, None, None);
        store::connections::update(db, &connection).await?;
    } else {
        return Ok(false);
    }
    routes::rewrite(app, db, event.workspace_id).await?;
    Ok(true)
}

async fn lose_domain(app: &App, db: &Connection, event: LaterEvent<'_>, domain: &str) -> Result<bool, Error> {
    routes::lock(app, db, domain).await?;
    let Some(mut stored) = store::workspace_domains::find(db, event.workspace_id, domain).await? else {
        return Ok(false);
    };
    routes::remove(app, db, event.workspace_id, domain).await?;
    if event.name == EventName::DomainRemoved {
        return store::workspace_domains::delete(db, event.workspace_id, domain).await;
    }
    (stored.verified_at, stored.next_check_at, stored.failures) = (None, None, FAILURES_UNTIL_LOST);
    store::workspace_domains::update_check(db, &stored).await?;
    Ok(true)
}
