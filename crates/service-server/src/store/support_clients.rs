//! Table `support_clients`: tools of the operator that may call the support listener.

use serde_json::Value;
use service_api::ids::{Id as _, SupportClientId};
use service_rules::Timestamp;
use uuid::Uuid;

use crate::database::{Connection, Error};

/// A support client, for operators.
pub struct StoredSupportClient {
    pub id: SupportClientId,
    pub name: String,
    pub created_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
}

/// What authenticates a support client.
pub struct SupportClientKeys {
    pub jwks: Value,
    pub revoked: bool,
}

/// A support client that an operator creates.
pub struct NewSupportClient<'a> {
    pub id: SupportClientId,
    pub name: &'a str,
    pub jwks: &'a Value,
}

/// Stores a support client.
pub async fn insert(db: &Connection, new: &NewSupportClient<'_>, now: Timestamp) -> Result<(), Error> {
    let sql = r"insert into support_clients (id, name, jwks, created_at) values ($1, $2, $3, $4)";
    db.execute(sql, &[&new.id.uuid(), &new.name, &new.jwks, &now]).await.map(drop)
}

/// Returns the public keys of a support client, and whether it was revoked.
pub async fn find_keys(db: &Connection, id: SupportClientId) -> Result<Option<SupportClientKeys>, Error> {
    let sql = r"select jwks, revoked_at is not null as revoked from support_clients where id = $1";
    let row = db.query_opt(sql, &[&id.uuid()]).await?;
    row.map(|row| Ok(SupportClientKeys { jwks: row.try_get("jwks")?, revoked: row.try_get("revoked")? })).transpose()
}

/// Returns every support client, the oldest first, also revoked ones.
pub async fn list(db: &Connection) -> Result<Vec<StoredSupportClient>, Error> {
    let rows = db.query(r"select id, name, created_at, revoked_at from support_clients order by id", &[]).await?;
    let read = |row: &tokio_postgres::Row| {
        Ok(StoredSupportClient {
            id: row.try_get::<_, Uuid>("id")?.into(),
            name: row.try_get("name")?,
            created_at: row.try_get("created_at")?,
            revoked_at: row.try_get("revoked_at")?,
        })
    };
    rows.iter().map(read).collect()
}

/// Revokes a support client; `false`: there is none, or it was revoked before.
pub async fn mark_revoked(db: &Connection, id: SupportClientId, now: Timestamp) -> Result<bool, Error> {
    let sql = r"update support_clients set revoked_at = $2 where id = $1 and revoked_at is null";
    Ok(db.execute(sql, &[&id.uuid(), &now]).await? == 1)
}
