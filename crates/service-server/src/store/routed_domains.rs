//! Table `routed_domains`: which workspace has verified a domain, and the connection that its users sign in with. A row is in
//! the shard of the domain's name.

use service_api::{
    ids::{ConnectionId, Id as _, WorkspaceId},
    shard::Shard,
};
use service_rules::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::database::{Connection, Error};

/// Where the users of a domain sign in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub workspace_id: WorkspaceId,
    pub connection_id: ConnectionId,
    /// The name of the connection.
    pub name: String,
    pub required: bool,
}

/// A domain and its shard.
#[derive(Clone, Copy, Debug)]
pub struct DomainKey<'a> {
    pub domain: &'a str,
    pub shard: Shard,
}

/// Returns where the users of a domain sign in. `None`: by email code.
pub async fn find(db: &Connection, domain: &str, shard: Shard) -> Result<Option<Route>, Error> {
    let sql = r"select workspace_id, connection_id, name, required_at is not null as required from routed_domains
                 where domain = $1 and shard = $2";
    let row = db.query_opt(sql, &[&domain, &shard.number()]).await?;
    row.map_or(Ok(None), |row| from_row(&row))
}

fn from_row(row: &Row) -> Result<Option<Route>, Error> {
    let Some(connection_id) = row.try_get::<_, Option<Uuid>>("connection_id")? else { return Ok(None) };
    Ok(Some(Route {
        workspace_id: row.try_get::<_, Uuid>("workspace_id")?.into(),
        connection_id: connection_id.into(),
        name: row.try_get::<_, Option<String>>("name")?.unwrap_or_default(),
        required: row.try_get("required")?,
    }))
}

/// Returns where the users of a domain sign in, and locks the row: a change of the route waits until this transaction ends.
pub async fn lock_route(db: &Connection, key: DomainKey<'_>) -> Result<Option<Route>, Error> {
    let sql = r"select workspace_id, connection_id, name, required_at is not null as required from routed_domains
                 where domain = $1 and shard = $2 for share";
    let row = db.query_opt(sql, &[&key.domain, &key.shard.number()]).await?;
    row.map_or(Ok(None), |row| from_row(&row))
}

/// The connection that users of a domain have to sign in with.
#[derive(Clone, Copy, Debug)]
pub struct Requirement {
    pub connection_id: ConnectionId,
    /// Since when.
    pub since: Timestamp,
}

/// Returns the connection that users of a domain have to sign in with. `None`: none.
pub async fn find_requirement(db: &Connection, key: DomainKey<'_>) -> Result<Option<Requirement>, Error> {
    let sql = r"select connection_id, required_at from routed_domains
                 where domain = $1 and shard = $2 and connection_id is not null and required_at is not null";
    read_requirement(db.query_opt(sql, &[&key.domain, &key.shard.number()]).await?)
}

/// Returns what [`find_requirement`] returns, and locks the row: a change of the route waits until this transaction ends.
pub async fn lock_requirement(db: &Connection, key: DomainKey<'_>) -> Result<Option<Requirement>, Error> {
    let sql = r"select connection_id, required_at from routed_domains where domain = $1 and shard = $2 for share";
    read_requirement(db.query_opt(sql, &[&key.domain, &key.shard.number()]).await?)
}

fn read_requirement(row: Option<Row>) -> Result<Option<Requirement>, Error> {
    let Some(row) = row else { return Ok(None) };
    let connection_id = row.try_get::<_, Option<Uuid>>("connection_id")?.map(ConnectionId::from);
    let since = row.try_get::<_, Option<Timestamp>>("required_at")?;
    Ok(connection_id.zip(since).map(|(connection_id, since)| Requirement { connection_id, since }))
}

/// Returns the workspace that has verified a domain, and locks the row until the transaction ends.
pub async fn lock_holder(db: &Connection, key: DomainKey<'_>) -> Result<Option<WorkspaceId>, Error> {
    let sql = r"select workspace_id from routed_domains where domain = $1 and shard = $2 for update";
    let row = db.query_opt(sql, &[&key.domain, &key.shard.number()]).await?;
    row.map(|row| Ok(row.try_get::<_, Uuid>("workspace_id")?.into())).transpose()
}

/// Stores that a workspace has verified a domain, and where its users sign in; `false`: another workspace has verified it. A
/// connection that was required before stays required since then.
pub async fn replace(
    db: &Connection,
    key: DomainKey<'_>,
    workspace_id: WorkspaceId,
    route: Option<&Route>,
    now: Timestamp,
) -> Result<bool, Error> {
    let written = db
        .execute(
            r"insert into routed_domains (domain, shard, workspace_id, connection_id, name, required_at)
              values ($1, $2, $3, $4, $5, $6)
              on conflict (domain, shard) do update
                 set connection_id = excluded.connection_id, name = excluded.name,
                     required_at = case when routed_domains.connection_id = excluded.connection_id
                                             and excluded.required_at is not null
                                        then coalesce(routed_domains.required_at, excluded.required_at)
                                        else excluded.required_at end
               where routed_domains.workspace_id = excluded.workspace_id",
            &[
                &key.domain,
                &key.shard.number(),
                &workspace_id.uuid(),
                &route.map(|route| route.connection_id.uuid()),
                &route.map(|route| route.name.as_str()),
                &route.filter(|route| route.required).map(|_| now),
            ],
        )
        .await?;
    Ok(written == 1)
}

/// Deletes the row of a domain if this workspace has verified it.
pub async fn delete(db: &Connection, key: DomainKey<'_>, workspace_id: WorkspaceId) -> Result<(), Error> {
    let sql = r"delete from routed_domains where domain = $1 and shard = $2 and workspace_id = $3";
    db.execute(sql, &[&key.domain, &key.shard.number(), &workspace_id.uuid()]).await.map(drop)
}
