//! Table `audit_events`: what happened, written in the transaction in which it happened.

use service_api::ids::{EventId, Id, UserId, WorkspaceId};
use service_rules::Timestamp;

use crate::database::{Connection, Error};

/// One thing that happened. `details` never holds a secret.
pub struct Event<'a> {
    pub id: EventId,
    pub at: Timestamp,
    pub event: &'static str,
    pub user_id: Option<UserId>,
    pub client_id: Option<&'a str>,
    pub workspace_id: Option<WorkspaceId>,
    pub subject: Option<String>,
    pub address: Option<String>,
    pub request_id: Option<String>,
    pub details: serde_json::Value,
}

pub async fn insert(db: &Connection, event: &Event<'_>) -> Result<(), Error> {
    db.execute(
        r"insert into audit_events
              (id, at, event, user_id, client_id, workspace_id, subject, address, request_id, details)
          values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        &[
            &event.id.uuid(),
            &event.at,
            &event.event,
            &event.user_id.map(Id::uuid),
            &event.client_id,
            &event.workspace_id.map(Id::uuid),
            &event.subject,
            &event.address,
            &event.request_id,
            &event.details,
        ],
    )
    .await
    .map(drop)
}
