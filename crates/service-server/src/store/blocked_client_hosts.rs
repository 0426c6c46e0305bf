//! Table `blocked_client_hosts`: hosts at which no self-registered client may be, nor receive redirects.

use service_rules::Timestamp;

use crate::database::{Connection, Error};

/// The advisory lock between transactions that store clients (shared) and those that block a host (exclusive).
const LOCK: i64 = 0x5e72_1ce0_0002;

/// Takes the lock for blocking a host: waits for transactions that store clients, and makes later ones wait.
pub async fn lock(db: &Connection) -> Result<(), Error> {
    db.query(r"select pg_advisory_xact_lock($1)", &[&LOCK]).await.map(drop)
}

/// Takes the lock for storing a client: waits for transactions that block a host, and makes later ones wait.
pub async fn lock_shared(db: &Connection) -> Result<(), Error> {
    db.query(r"select pg_advisory_xact_lock_shared($1)", &[&LOCK]).await.map(drop)
}

/// Blocks a host; `false`: it was blocked already.
pub async fn insert(db: &Connection, host: &str, operator: &str, now: Timestamp) -> Result<bool, Error> {
    let sql =
        r"insert into blocked_client_hosts (host, blocked_by, blocked_at) values ($1, $2, $3) on conflict do nothing";
    Ok(db.execute(sql, &[&host, &operator, &now]).await? == 1)
}

/// Unblocks a host; `false`: it was not blocked.
pub async fn delete(db: &Connection, host: &str) -> Result<bool, Error> {
    Ok(db.execute(r"delete from blocked_client_hosts where host = $1", &[&host]).await? == 1)
}

/// Whether any of these hosts is blocked.
pub async fn is_any_blocked(db: &Connection, hosts: &[String]) -> Result<bool, Error> {
    let sql = r"select from blocked_client_hosts where host = any($1::text[]) limit 1";
    Ok(db.query_opt(sql, &[&hosts]).await?.is_some())
}

/// Returns every blocked host with the operator who blocked it, in alphabetical order.
pub async fn list(db: &Connection) -> Result<Vec<(String, String)>, Error> {
    let rows = db.query(r"select host, blocked_by from blocked_client_hosts order by host", &[]).await?;
    rows.iter().map(|row| Ok((row.try_get("host")?, row.try_get("blocked_by")?))).collect()
}
