//! What is repeated after the database was restored from a backup: connections that were deleted or disabled since, domains
//! that were removed or lost, and whether single sign-on is required. Otherwise users would be sent to a provider that their
//! company has given up, or could sign in by code although their company forbids it.

use serde_json::Value;
use service_api::{
    audit_events::EventName,
    ids::{ConnectionId, UserId, WorkspaceId},
};
use service_rules::{Timestamp, domains::FAILURES_UNTIL_LOST};

use crate::{
    app::App,
    database::{Connection, Error},
    flows::sso::routes,
    store::{self, connections::StoredConnection},
};

/// An event about connections or domains that was recorded after the backup.
#[derive(Clone, Copy, Debug)]
pub struct LaterEvent<'a> {
    pub name: EventName,
    pub workspace_id: WorkspaceId,
    pub details: &'a Value,
}

/// Repeats what an event changed. Returns whether that changed anything.
pub async fn repeat(app: &App, db: &Connection, event: LaterEvent<'_>, now: Timestamp) -> Result<bool, Error> {
    let domain = event.details["domain"].as_str();
    let connection_id = event.details["connection"].as_str().and_then(|id| id.parse::<ConnectionId>().ok());
    match (event.name, connection_id, domain) {
        (EventName::ConnectionDeleted, Some(id), _) => change_connection(app, db, event, id, now).await,
        (EventName::ConnectionEnabled, Some(id), _) if event.details["enabled"] == false => {
            change_connection(app, db, event, id, now).await
        }
        (EventName::ConnectionRequired | EventName::ConnectionChanged, Some(id), _) => {
            change_connection(app, db, event, id, now).await
        }
        (EventName::DomainRemoved | EventName::DomainLost, _, Some(domain)) => {
            lose_domain(app, db, event, domain).await
        }
        _ => Ok(false),
    }
}

/// Changes a connection again; `false`: the backup has no such connection, or nothing to change.
async fn change_connection(
    app: &App,
    db: &Connection,
    event: LaterEvent<'_>,
    id: ConnectionId,
    now: Timestamp,
) -> Result<bool, Error> {
    let found = store::connections::find(db, id).await?;
    let Some(mut connection) = found.filter(|connection| connection.workspace_id == event.workspace_id) else {
        return Ok(false);
    };
    routes::lock_all(app, db, event.workspace_id).await?;
    if event.name == EventName::ConnectionDeleted {
        routes::delete_connection(db, &connection, now).await?;
    } else if apply(&mut connection, event, now) {
        store::connections::update(db, &connection).await?;
        if connection.required_at.is_none() {
            store::user_connections::delete_limits(db, id).await?;
        }
    } else {
        return Ok(false);
    }
    routes::rewrite(app, db, event.workspace_id).await?;
    Ok(true)
}

/// Applies an event to a connection that the backup has; `false`: it changes nothing.
fn apply(connection: &mut StoredConnection, event: LaterEvent<'_>, now: Timestamp) -> bool {
    let details = event.details;
    let break_glass = serde_json::from_value::<Vec<UserId>>(details["breakGlass"].clone()).ok();
    let is_other = break_glass.as_ref().is_some_and(|owners| *owners != connection.break_glass);
    if let Some(owners) = break_glass {
        connection.break_glass = owners;
    }
    match event.name {
        EventName::ConnectionEnabled if connection.enabled_at.is_some() => {
            connection.enabled_at = None;
            connection.stop_requiring();
            true
        }
        // Users cannot be required to use a connection that is not enabled.
        EventName::ConnectionRequired if details["required"] == true && connection.enabled_at.is_some() => {
            connection.require(now, details["existing"] == "revoke");
            true
        }
        EventName::ConnectionRequired if details["required"] == false && connection.required_at.is_some() => {
            connection.stop_requiring();
            true
        }
        _ => is_other,
    }
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
