//! Table `trusted_issuers`: issuers whose tokens a workspace accepts, and their health.
//!
//! A row is in the shard of its workspace, and so is its id.

use service_api::ids::{Id as _, IssuerId, WorkspaceId};
use service_rules::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::{
    database::{Connection, Error},
    issuers::trusted_issuer::TrustedIssuer,
};

/// The purpose of an issuer that signs in users through a connection.
pub const SIGN_IN: &str = "sign_in";

/// What happened when nodes last used an issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IssuerHealth {
    pub last_success_at: Option<Timestamp>,
    /// The last error, as a sentence for owners.
    pub last_error: Option<String>,
    pub last_error_at: Option<Timestamp>,
}

/// Stores an issuer of a workspace. The id of the issuer must be in the workspace's shard.
pub async fn insert(
    db: &Connection,
    workspace_id: WorkspaceId,
    issuer: &TrustedIssuer,
    now: Timestamp,
) -> Result<(), Error> {
    db.execute(
        r"insert into trusted_issuers (id, shard, workspace_id, issuer, jwks, algorithms, purposes, created_at)
          values ($1, $2, $3, $4, $5, $6, $7, $8)",
        &[
            &issuer.id.uuid(),
            &workspace_id.shard().number(),
            &workspace_id.uuid(),
            &issuer.issuer,
            &issuer.jwks,
            &issuer.algorithms,
            &issuer.purposes,
            &now,
        ],
    )
    .await
    .map(drop)
}

/// Changes the keys and the algorithms of an issuer.
pub async fn update(db: &Connection, issuer: &TrustedIssuer) -> Result<(), Error> {
    let sql = r"update trusted_issuers set jwks = $2, algorithms = $3 where id = $1 and shard = $4";
    let shard = issuer.id.shard().number();
    db.execute(sql, &[&issuer.id.uuid(), &issuer.jwks, &issuer.algorithms, &shard]).await.map(drop)
}

/// Finds an issuer.
pub async fn find(db: &Connection, id: IssuerId) -> Result<Option<TrustedIssuer>, Error> {
    let sql = r"select id as issuer_id, issuer, jwks, algorithms, purposes from trusted_issuers
                 where id = $1 and shard = $2";
    db.query_opt(sql, &[&id.uuid(), &id.shard().number()]).await?.as_ref().map(from_row).transpose()
}

/// Reads the issuer from a row of a join, where its id is `issuer_id`.
pub(super) fn from_row(row: &Row) -> Result<TrustedIssuer, Error> {
    Ok(TrustedIssuer {
        id: row.try_get::<_, Uuid>("issuer_id")?.into(),
        issuer: row.try_get("issuer")?,
        jwks: row.try_get("jwks")?,
        algorithms: row.try_get("algorithms")?,
        purposes: row.try_get("purposes")?,
    })
}

/// Finds the health of an issuer; `None`: there is no such issuer.
pub async fn find_health(db: &Connection, id: IssuerId) -> Result<Option<IssuerHealth>, Error> {
    let sql = r"select last_success_at, last_error, last_error_at from trusted_issuers where id = $1 and shard = $2";
    let Some(row) = db.query_opt(sql, &[&id.uuid(), &id.shard().number()]).await? else { return Ok(None) };
    Ok(Some(IssuerHealth {
        last_success_at: row.try_get("last_success_at")?,
        last_error: row.try_get("last_error")?,
        last_error_at: row.try_get("last_error_at")?,
    }))
}

/// Records that an issuer was used with success. Nodes do so at most once a minute.
pub async fn mark_success(db: &Connection, id: IssuerId, now: Timestamp) -> Result<(), Error> {
    let sql = r"update trusted_issuers set last_success_at = $3 where id = $1 and shard = $2";
    db.execute(sql, &[&id.uuid(), &id.shard().number(), &now]).await.map(drop)
}

/// Records why an issuer could not be used. Nodes do so at most once a minute.
pub async fn mark_error(db: &Connection, id: IssuerId, error: &str, now: Timestamp) -> Result<(), Error> {
    let sql = r"update trusted_issuers set last_error = $3, last_error_at = $4 where id = $1 and shard = $2";
    db.execute(sql, &[&id.uuid(), &id.shard().number(), &error, &now]).await.map(drop)
}

/// Deletes an issuer; `false`: there is none.
pub async fn delete(db: &Connection, id: IssuerId) -> Result<bool, Error> {
    let sql = r"delete from trusted_issuers where id = $1 and shard = $2";
    Ok(db.execute(sql, &[&id.uuid(), &id.shard().number()]).await? == 1)
}
