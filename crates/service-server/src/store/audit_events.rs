//! Table `audit_events`: what happened, written in the transaction in which it happened, and never changed.

use service_api::{
    audit_events::{AuditEvent, EventName},
    ids::{EventId, Id, UserId, WorkspaceId},
};
use service_rules::Timestamp;
use tokio_postgres::{Row, types::Json};
use uuid::Uuid;

use crate::database::{Connection, Error};

/// One thing that happened. `details` never holds a secret.
pub struct Event<'a> {
    pub id: EventId,
    pub at: Timestamp,
    pub event: EventName,
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
            &event.event.as_str(),
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

/// Which events are wanted, the youngest first.
pub struct Listed {
    pub event: Option<EventName>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub before: Option<EventId>,
    pub limit: i64,
}

impl Listed {
    fn event(&self) -> Option<&'static str> {
        self.event.map(EventName::as_str)
    }

    fn before(&self) -> Uuid {
        self.before.map_or(Uuid::max(), Id::uuid)
    }
}

pub async fn list_by_user(db: &Connection, user_id: UserId, listed: &Listed) -> Result<Vec<AuditEvent>, Error> {
    let rows = db
        .query(
            r"select id, at, event, user_id, client_id, workspace_id, subject, address, request_id, details
                from audit_events
               where user_id = $1 and id < $2 and ($5::text is null or event = $5)
                 and at >= coalesce($3::timestamptz, '-infinity') and at < coalesce($4::timestamptz, 'infinity')
               order by id desc limit $6",
            &[&user_id.uuid(), &listed.before(), &listed.since, &listed.until, &listed.event(), &listed.limit],
        )
        .await?;
    rows.iter().map(from_row).collect()
}

/// Those of a workspace, or of one user in it.
pub async fn list_by_workspace(
    db: &Connection,
    workspace_id: WorkspaceId,
    user_id: Option<UserId>,
    listed: &Listed,
) -> Result<Vec<AuditEvent>, Error> {
    let rows = db
        .query(
            r"select id, at, event, user_id, client_id, workspace_id, subject, address, request_id, details
                from audit_events
               where workspace_id = $1 and id < $2 and ($5::text is null or event = $5)
                 and at >= coalesce($3::timestamptz, '-infinity') and at < coalesce($4::timestamptz, 'infinity')
                 and ($6::uuid is null or user_id = $6)
               order by id desc limit $7",
            &[
                &workspace_id.uuid(),
                &listed.before(),
                &listed.since,
                &listed.until,
                &listed.event(),
                &user_id.map(Id::uuid),
                &listed.limit,
            ],
        )
        .await?;
    rows.iter().map(from_row).collect()
}

fn from_row(row: &Row) -> Result<AuditEvent, Error> {
    let Json(details) = row.try_get("details")?;
    Ok(AuditEvent {
        id: row.try_get::<_, Uuid>("id")?.into(),
        at: row.try_get("at")?,
        event: row.try_get("event")?,
        user_id: row.try_get::<_, Option<Uuid>>("user_id")?.map(Into::into),
        client_id: row.try_get("client_id")?,
        workspace_id: row.try_get::<_, Option<Uuid>>("workspace_id")?.map(Into::into),
        subject: row.try_get("subject")?,
        address: row.try_get("address")?,
        request_id: row.try_get("request_id")?,
        details,
    })
}
