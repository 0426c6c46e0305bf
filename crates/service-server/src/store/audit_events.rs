//! Table `audit_events`. An event is written in the transaction that it describes, and never changed.
//!
//! Personal fields are sealed before they are stored; see `audit_keys`.

use std::{fmt, net::IpAddr, sync::Arc};

use serde_json::{Map, Value};
use service_api::{
    audit_events::{AuditEvent, EventName},
    ids::{EventId, Id, UserId, WorkspaceId},
};
use service_rules::{Timestamp, network};
use tokio_postgres::{Row, types::Json};
use uuid::Uuid;

use crate::store::audit_keys::{self, defect};
use crate::{
    audit::keys::AuditKeys,
    database::{Connection, Error},
};

/// Names of details that are sealed under the key of the user whom the event concerns.
pub const PERSONAL_DETAILS: [&str; 2] = ["email", "personName"];

/// An audit event to be stored. `details` never holds a secret.
pub struct NewAuditEvent<'a> {
    pub id: EventId,
    pub at: Timestamp,
    pub event: EventName,
    pub user_id: Option<UserId>,
    pub client_id: Option<&'a str>,
    pub workspace_id: Option<WorkspaceId>,
    pub subject: Option<String>,
    /// The network address of the caller. The address is stored sealed, its network in clear.
    pub address: Option<IpAddr>,
    pub request_id: Option<String>,
    /// Those named in [`PERSONAL_DETAILS`] are stored sealed.
    pub details: Value,
    /// The keys that seal the address and the personal details. An event with personal fields and without keys is a
    /// defect.
    pub keys: Option<Arc<AuditKeys>>,
}

impl<'a> NewAuditEvent<'a> {
    /// An event that names neither its cause nor its place yet.
    #[must_use]
    pub fn new(id: EventId, event: EventName, at: Timestamp, details: Value) -> Self {
        Self {
            id,
            at,
            event,
            user_id: None,
            client_id: None,
            workspace_id: None,
            subject: None,
            address: None,
            request_id: None,
            details,
            keys: None,
        }
    }

    /// Sets the user whom the event is about, who can read it.
    #[must_use]
    pub fn user(self, id: UserId) -> Self {
        Self { user_id: Some(id), ..self }
    }

    #[must_use]
    pub fn client(self, id: &'a str) -> Self {
        Self { client_id: Some(id), ..self }
    }

    /// Sets the workspace, whose owners can read the event; `None` in personal space.
    #[must_use]
    pub fn in_workspace(self, id: impl Into<Option<WorkspaceId>>) -> Self {
        Self { workspace_id: id.into(), ..self }
    }

    /// Sets the id of the session, token or content that the event is about.
    #[must_use]
    pub fn subject(self, id: impl fmt::Display) -> Self {
        Self { subject: Some(id.to_string()), ..self }
    }

    /// Leaves out the network address of the caller, where the readers of the event may not see it.
    #[must_use]
    pub fn without_address(self) -> Self {
        Self { address: None, ..self }
    }

    pub async fn insert(self, db: &Connection) -> Result<(), Error> {
        insert(db, &self).await
    }
}

/// The fields of an event in the form in which they are stored.
struct SealedFields {
    network: Option<String>,
    address: Option<Vec<u8>>,
    clear_details: Value,
    details: Option<Vec<u8>>,
}

/// Seals the address and the personal details of an event.
async fn seal(db: &Connection, event: &NewAuditEvent<'_>) -> Result<SealedFields, Error> {
    let mut clear_details = event.details.clone();
    let mut personal = Map::new();
    if let Some(details) = clear_details.as_object_mut() {
        personal.extend(PERSONAL_DETAILS.iter().filter_map(|name| details.remove_entry(*name)));
    }
    let keys = || event.keys.as_deref().ok_or_else(|| Error::Defect("an event has personal fields and no keys".into()));
    let address = match event.address {
        Some(address) => {
            let key = audit_keys::find_or_create_day(db, keys()?, AuditKeys::day_of(event.at)).await?;
            Some(key.seal_address(event.id, address).map_err(|error| defect(&error))?)
        }
        None => None,
    };
    let details = match event.user_id {
        _ if personal.is_empty() => None,
        Some(user_id) => {
            let key = audit_keys::find_or_create_user(db, keys()?, user_id, event.at).await?;
            Some(key.seal_details(event.id, &personal).map_err(|error| defect(&error))?)
        }
        None => return Err(Error::Defect("an event has personal details and concerns no user".into())),
    };
    let network = event.address.map(|address| network::recorded(address).to_string());
    Ok(SealedFields { network, address, clear_details, details })
}

/// Stores an event.
pub async fn insert(db: &Connection, event: &NewAuditEvent<'_>) -> Result<(), Error> {
    let sealed = seal(db, event).await?;
    db.execute(
        r"insert into audit_events
              (id, at, event, user_id, client_id, workspace_id, subject, address, request_id, details,
               sealed_address, sealed_details)
          values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        &[
            &event.id.uuid(),
            &event.at,
            &event.event.as_str(),
            &event.user_id.map(Id::uuid),
            &event.client_id,
            &event.workspace_id.map(Id::uuid),
            &event.subject,
            &sealed.network,
            &event.request_id,
            &sealed.clear_details,
            &sealed.address,
            &sealed.details,
        ],
    )
    .await
    .map(drop)
}

/// Stores several events in one statement.
pub async fn insert_several(db: &Connection, events: &[NewAuditEvent<'_>]) -> Result<(), Error> {
    let mut sealed = Vec::with_capacity(events.len());
    for event in events {
        sealed.push(seal(db, event).await?);
    }
    db.execute(
        r"insert into audit_events
              (id, at, event, user_id, client_id, workspace_id, subject, address, request_id, details,
               sealed_address, sealed_details)
          select * from unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::uuid[], $5::text[], $6::uuid[], $7::text[],
                               $8::text[], $9::text[], $10::jsonb[], $11::bytea[], $12::bytea[])",
        &[
            &events.iter().map(|event| event.id.uuid()).collect::<Vec<_>>(),
            &events.iter().map(|event| event.at).collect::<Vec<_>>(),
            &events.iter().map(|event| event.event.as_str()).collect::<Vec<_>>(),
            &events.iter().map(|event| event.user_id.map(Id::uuid)).collect::<Vec<_>>(),
            &events.iter().map(|event| event.client_id).collect::<Vec<_>>(),
            &events.iter().map(|event| event.workspace_id.map(Id::uuid)).collect::<Vec<_>>(),
            &events.iter().map(|event| event.subject.as_deref()).collect::<Vec<_>>(),
            &sealed.iter().map(|sealed| sealed.network.as_deref()).collect::<Vec<_>>(),
            &events.iter().map(|event| event.request_id.as_deref()).collect::<Vec<_>>(),
            &sealed.iter().map(|sealed| &sealed.clear_details).collect::<Vec<_>>(),
            &sealed.iter().map(|sealed| sealed.address.as_deref()).collect::<Vec<_>>(),
            &sealed.iter().map(|sealed| sealed.details.as_deref()).collect::<Vec<_>>(),
        ],
    )
    .await
    .map(drop)
}

/// An event as it is stored: with the network instead of the address, and without its personal details.
pub struct StoredAuditEvent {
    pub event: AuditEvent,
    pub sealed_address: Option<Vec<u8>>,
    pub sealed_details: Option<Vec<u8>>,
}

/// Selects events of a list, newest first.
pub struct AuditEventQuery {
    pub event: Option<EventName>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub before: Option<EventId>,
    pub limit: i64,
}

impl AuditEventQuery {
    fn event(&self) -> Option<&'static str> {
        self.event.map(EventName::as_str)
    }

    fn before(&self) -> Uuid {
        self.before.map_or(Uuid::max(), Id::uuid)
    }
}

/// Returns the events that concern a user.
pub async fn list_by_user(
    db: &Connection,
    user_id: UserId,
    query: &AuditEventQuery,
) -> Result<Vec<StoredAuditEvent>, Error> {
    let rows = db
        .query(
            r"select id, at, event, user_id, client_id, workspace_id, subject, address, request_id, details,
                     sealed_address, sealed_details
                from audit_events
               where user_id = $1 and id < $2 and ($5::text is null or event = $5)
                 and at >= coalesce($3::timestamptz, '-infinity') and at < coalesce($4::timestamptz, 'infinity')
               order by id desc limit $6",
            &[&user_id.uuid(), &query.before(), &query.since, &query.until, &query.event(), &query.limit],
        )
        .await?;
    rows.iter().map(from_row).collect()
}

/// Returns the events of a workspace, or those of one user in it.
pub async fn list_by_workspace(
    db: &Connection,
    workspace_id: WorkspaceId,
    user_id: Option<UserId>,
    query: &AuditEventQuery,
) -> Result<Vec<StoredAuditEvent>, Error> {
    let rows = db
        .query(
            r"select id, at, event, user_id, client_id, workspace_id, subject, address, request_id, details,
                     sealed_address, sealed_details
                from audit_events
               where workspace_id = $1 and id < $2 and ($5::text is null or event = $5)
                 and at >= coalesce($3::timestamptz, '-infinity') and at < coalesce($4::timestamptz, 'infinity')
                 and ($6::uuid is null or user_id = $6)
               order by id desc limit $7",
            &[
                &workspace_id.uuid(),
                &query.before(),
                &query.since,
                &query.until,
                &query.event(),
                &user_id.map(Id::uuid),
                &query.limit,
            ],
        )
        .await?;
    rows.iter().map(from_row).collect()
}

fn from_row(row: &Row) -> Result<StoredAuditEvent, Error> {
    let Json(details) = row.try_get("details")?;
    let event = AuditEvent {
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
    };
    let (sealed_address, sealed_details) = (row.try_get("sealed_address")?, row.try_get("sealed_details")?);
    Ok(StoredAuditEvent { event, sealed_address, sealed_details })
}
