//! Listing audit events (`GET /v1/audit-events`): those of the user's own account, or of a workspace, for its owners.

use service_api::{
    audit_events::{AuditEvent, EventName},
    ids::{EventId, Id as _, UserId},
    page::Page,
};
use service_rules::{Timestamp, space::Space};

use crate::{
    app::App,
    database,
    flows::{audit::keys, operator::hide_operator},
    pagination::{InvalidCursor, List, PageRequest},
    store::{self, audit_events::AuditEventQuery},
};

/// Why audit events were not listed.
#[derive(Debug, thiserror::Error)]
pub enum AuditQueryError {
    #[error(transparent)]
    InvalidCursor(#[from] InvalidCursor),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// The events that a request asks for.
pub struct EventQuery<'a> {
    pub event: Option<EventName>,
    /// Only events about this user. In personal space all events are about the reader.
    pub about: Option<UserId>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub page: PageRequest<'a>,
}

/// Lists the events of the reader's account, or of a workspace that the reader owns, the newest first.
pub async fn list(
    app: &App,
    reader: UserId,
    space: Space,
    query: &EventQuery<'_>,
) -> Result<Page<AuditEvent>, AuditQueryError> {
    let owner = match space {
        Space::Personal => reader.to_string(),
        Space::Workspace(id) => id.to_string(),
    };
    let list = List { root_keys: &app.root_keys, of: &[b"audit events", owner.as_bytes()], limit: query.page.limit };
    let listed = AuditEventQuery {
        event: query.event,
        since: query.since,
        until: query.until,
        before: list.behind(query.page.cursor)?.map(EventId::from),
        limit: list.rows(),
    };
    let db = app.database.connect().await?;
    let data = match space {
        Space::Personal if query.about.is_some_and(|about| about != reader) => Vec::new(),
        Space::Personal => store::audit_events::list_by_user(&db, reader, &listed).await?,
        Space::Workspace(id) => store::audit_events::list_by_workspace(&db, id, query.about, &listed).await?,
    };
    let mut data = keys::open(app, &db, data).await?;
    for event in &mut data {
        hide_address(event, reader);
        hide_operator(event);
    }
    Ok(list.page(data, |event| event.id.uuid()))
}

/// Removes the network address from an event of another user. Only the user to whom an address belongs sees it.
fn hide_address(event: &mut AuditEvent, reader: UserId) {
    if event.user_id != Some(reader) {
        event.address = None;
    }
}
