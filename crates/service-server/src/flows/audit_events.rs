//! What happened (`GET /v1/audit-events`): to somebody's own account, or in a workspace, for its owners.

use service_api::{
    audit_events::{AuditEvent, EventName},
    ids::{EventId, Id as _, UserId},
    page::Page,
};
use service_rules::{Timestamp, space::Place};

use crate::{
    app::App,
    cursor::{Foreign, List},
    failure::Failure,
    store::{self, audit_events::Listed},
};

/// What somebody wants to see.
pub struct Asked<'a> {
    pub event: Option<EventName>,
    /// Only in a workspace: elsewhere everything is about the caller.
    pub about: Option<UserId>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub limit: u16,
    pub cursor: Option<&'a str>,
}

/// The youngest first. Whoever asks for a workspace's events was found to be its owner.
pub async fn list(
    app: &App,
    user_id: UserId,
    place: Place,
    asked: &Asked<'_>,
) -> Result<Page<AuditEvent>, Failure<Foreign>> {
    let space = match place {
        Place::Personal => user_id.to_string(),
        Place::Workspace(id) => id.to_string(),
    };
    let list = List { vault: &app.vault, of: &[b"audit events", space.as_bytes()], limit: asked.limit };
    let listed = Listed {
        event: asked.event,
        since: asked.since,
        until: asked.until,
        before: list.behind(asked.cursor).map_err(Failure::Refused)?.map(EventId::from),
        limit: list.rows(),
    };
    let db = app.database.connect().await?;
    let data = match place {
        Place::Personal if asked.about.is_some_and(|about| about != user_id) => Vec::new(),
        Place::Personal => store::audit_events::list_by_user(&db, user_id, &listed).await?,
        Place::Workspace(id) => store::audit_events::list_by_workspace(&db, id, asked.about, &listed).await?,
    };
    Ok(list.page(data, |event| event.id.uuid()))
}
