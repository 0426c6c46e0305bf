//! Table `routed_domains`: which workspace has verified a domain, and the connection that its users sign in with. A row is in
//! the shard of the domain's name.

use service_api::{
    ids::{ConnectionId, Id as _, WorkspaceId},
    shard::Shard,
};
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
    let sql =
        r"select workspace_id, connection_id, name, required from routed_domains where domain = $1 and shard = $2";
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
    let sql = r"select workspace_id, connection_id, name, required from routed_domains
                 where domain = $1 and shard = $2 for share";
    let row = db.query_opt(sql, &[&key.domain, &key.shard.number()]).await?;
    row.map_or(Ok(None), |row| from_row(&row))
}

/// Returns the workspace that has verified a domain, and locks the row until the transaction ends.
pub async fn lock_holder(db: &Connection, key: DomainKey<'_>) -> Result<Option<WorkspaceId>, Error> {
    let sql = r"select workspace_id from routed_domains where domain = $1 and shard = $2 for update";
    let row = db.query_opt(sql, &[&key.domain, &key.shard.number()]).await?;
    row.map(|row| Ok(row.try_get::<_, Uuid>("workspace_id")?.into())).transpose()
}

/// Stores that a workspace has verified a domain, and where its users sign in; `false`: another workspace has verified it.
pub async fn replace(
    db: &Connection,
    key: DomainKey<'_>,
    workspace_id: WorkspaceId,
    route: Option<&Route>,
) -> Result<bool, Error> {
    let written = db
        .execute(
            r"insert into routed_domains (domain, shard, workspace_id, connection_id, name, required)
              values ($1, $2, $3, $4, $5, $6)
              on conflict (domain, shard) do update
                 set connection_id = excluded.connection_id, name = excluded.name, required = excluded.required
               where routed_domains.workspace_id = excluded.workspace_id",
            &[
                &key.domain,
                &key.shard.number(),
                &workspace_id.uuid(),
                &route.map(|route| route.connection_id.uuid()),
                &route.map(|route| route.name.as_str()),
                &route.is_some_and(|route| route.required),
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
