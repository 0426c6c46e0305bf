//! Table `workspace_domains`: the domains that a workspace claims. A row is in the shard of the workspace.
//!
//! A domain counts while `verified_at` is set. It is set by a check that finds the DNS record, and taken away when the domain
//! is lost.

use service_api::ids::{ConnectionId, Id as _, UserId, WorkspaceId};
use service_rules::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::{
    database::{Connection, Error},
    store::Batch,
};

/// A domain that a workspace claims.
#[derive(Clone, Debug)]
pub struct StoredDomain {
    pub workspace_id: WorkspaceId,
    pub domain: String,
    pub connection_id: Option<ConnectionId>,
    pub created_by: UserId,
    pub created_at: Timestamp,
    /// When the record was found first, since the domain was claimed or lost.
    pub verified_at: Option<Timestamp>,
    pub checked_at: Option<Timestamp>,
    pub next_check_at: Option<Timestamp>,
    /// Checks in a row that did not find the record.
    pub failures: i16,
    pub last_error: Option<String>,
}

/// Returns the verified domains of a connection, in order.
pub async fn verified_domains_of(
    db: &Connection,
    connection_id: ConnectionId,
    workspace_id: WorkspaceId,
) -> Result<Vec<String>, Error> {
    let sql = r"select domain from workspace_domains
                 where workspace_id = $1 and shard = $2 and connection_id = $3 and verified_at is not null order by domain";
    let rows = db.query(sql, &[&workspace_id.uuid(), &workspace_id.shard().number(), &connection_id.uuid()]).await?;
    rows.iter().map(|row| Ok(row.try_get("domain")?)).collect()
}

/// Returns the domains of a workspace, in order.
pub async fn list(db: &Connection, workspace_id: WorkspaceId) -> Result<Vec<StoredDomain>, Error> {
    let rows = db
        .query(
            r"select workspace_id, domain, connection_id, created_by, created_at, verified_at, checked_at, next_check_at,
                     failures, last_error
                from workspace_domains where workspace_id = $1 and shard = $2 order by domain",
            &[&workspace_id.uuid(), &workspace_id.shard().number()],
        )
        .await?;
    rows.iter().map(from_row).collect()
}

/// Returns one domain of a workspace.
pub async fn find(db: &Connection, workspace_id: WorkspaceId, domain: &str) -> Result<Option<StoredDomain>, Error> {
    let row = db
        .query_opt(
            r"select workspace_id, domain, connection_id, created_by, created_at, verified_at, checked_at, next_check_at,
                     failures, last_error
                from workspace_domains where workspace_id = $1 and domain = $2 and shard = $3",
            &[&workspace_id.uuid(), &domain, &workspace_id.shard().number()],
        )
        .await?;
    row.as_ref().map(from_row).transpose()
}

/// Stores a domain that a workspace claims.
pub async fn insert(db: &Connection, new: &StoredDomain) -> Result<(), Error> {
    db.execute(
        r"insert into workspace_domains (workspace_id, domain, shard, connection_id, created_by, created_at)
          values ($1, $2, $3, $4, $5, $6)",
        &[
            &new.workspace_id.uuid(),
            &new.domain,
            &new.workspace_id.shard().number(),
            &new.connection_id.map(ConnectionId::uuid),
            &new.created_by.uuid(),
            &new.created_at,
        ],
    )
    .await
    .map(drop)
}

/// Writes the outcome of a check. A domain that counts is written only while its row in `routed_domains` is locked.
pub async fn update_check(db: &Connection, checked: &StoredDomain) -> Result<(), Error> {
    db.execute(
        r"update workspace_domains
             set verified_at = $4, checked_at = $5, next_check_at = $6, failures = $7, last_error = $8
           where workspace_id = $1 and domain = $2 and shard = $3",
        &[
            &checked.workspace_id.uuid(),
            &checked.domain,
            &checked.workspace_id.shard().number(),
            &checked.verified_at,
            &checked.checked_at,
            &checked.next_check_at,
            &checked.failures,
            &checked.last_error,
        ],
    )
    .await
    .map(drop)
}

/// Chooses the connection that users of a domain sign in with.
pub async fn update_connection(
    db: &Connection,
    workspace_id: WorkspaceId,
    domain: &str,
    connection_id: Option<ConnectionId>,
) -> Result<(), Error> {
    let sql = r"update workspace_domains set connection_id = $4 where workspace_id = $1 and domain = $2 and shard = $3";
    let (shard, connection_id) = (workspace_id.shard().number(), connection_id.map(ConnectionId::uuid));
    db.execute(sql, &[&workspace_id.uuid(), &domain, &shard, &connection_id]).await.map(drop)
}

/// Takes a connection from all domains of a workspace.
pub async fn detach_connection(
    db: &Connection,
    workspace_id: WorkspaceId,
    connection_id: ConnectionId,
) -> Result<(), Error> {
    let sql = r"update workspace_domains set connection_id = null
                 where workspace_id = $1 and shard = $2 and connection_id = $3";
    let shard = workspace_id.shard().number();
    db.execute(sql, &[&workspace_id.uuid(), &shard, &connection_id.uuid()]).await.map(drop)
}

/// Deletes a domain of a workspace; `false`: the workspace does not claim it.
pub async fn delete(db: &Connection, workspace_id: WorkspaceId, domain: &str) -> Result<bool, Error> {
    let sql = r"delete from workspace_domains where workspace_id = $1 and domain = $2 and shard = $3";
    Ok(db.execute(sql, &[&workspace_id.uuid(), &domain, &workspace_id.shard().number()]).await? == 1)
}

/// Returns a batch of domains whose next check is due, and sets the time of the check after that, so that one node checks
/// each.
pub async fn claim_due(db: &Connection, batch: Batch, next_check_at: Timestamp) -> Result<Vec<StoredDomain>, Error> {
    let rows = db
        .query(
            r"/* housekeeping */
              update workspace_domains set next_check_at = $3 where (workspace_id, domain) in
                  (select workspace_id, domain from workspace_domains where next_check_at <= $1
                    order by next_check_at limit $2 for update skip locked)
              returning workspace_id, domain, connection_id, created_by, created_at, verified_at, checked_at, next_check_at,
                        failures, last_error",
            &[&batch.now, &batch.size, &next_check_at],
        )
        .await?;
    rows.iter().map(from_row).collect()
}

fn from_row(row: &Row) -> Result<StoredDomain, Error> {
    Ok(StoredDomain {
        workspace_id: row.try_get::<_, Uuid>("workspace_id")?.into(),
        domain: row.try_get("domain")?,
        connection_id: row.try_get::<_, Option<Uuid>>("connection_id")?.map(ConnectionId::from),
        created_by: row.try_get::<_, Uuid>("created_by")?.into(),
        created_at: row.try_get("created_at")?,
        verified_at: row.try_get("verified_at")?,
        checked_at: row.try_get("checked_at")?,
        next_check_at: row.try_get("next_check_at")?,
        failures: row.try_get("failures")?,
        last_error: row.try_get("last_error")?,
    })
}
