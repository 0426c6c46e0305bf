//! SQL, and nothing else: one file a table, one function a statement.
//!
//! Every function takes a connection, so the flow that calls it decides what is one transaction. Every statement is a
//! raw string literal, so that a test can find them all and prepare each against the migrated schema.

pub mod audit_events;
pub mod audit_months;
pub mod audit_seals;
pub mod authorization_codes;
pub mod browser_sessions;
pub mod cli_tokens;
pub mod client_assertions;
pub mod clients;
pub mod consents;
pub mod contents;
pub mod deletions;
pub mod emails;
pub mod grants;
pub mod idempotency_keys;
pub mod invitations;
pub mod memberships;
pub mod otps;
pub mod outbox;
pub mod rates;
pub mod recent_hits;
pub mod revocations;
pub mod sign_in_flows;
pub mod signing_keys;
pub mod users;
pub mod workspaces;

use service_rules::Timestamp;

use crate::database::{Connection, Error};

/// A row that the service could not have written.
fn impossible(table: &str, column: &str) -> Error {
    Error::Defect(format!("{table}.{column} holds a value that the service never writes"))
}

/// Whether the database answers.
pub async fn ping(db: &Connection) -> Result<(), Error> {
    db.query(r"select 1", &[]).await.map(drop)
}

/// What time the database says it is: nothing is decided by it, but a clock that differs from it is wrong.
pub async fn database_time(db: &Connection) -> Result<Timestamp, Error> {
    let row = db.query_opt(r"select clock_timestamp() as database_time", &[]).await?;
    Ok(row.ok_or_else(|| impossible("the clock", "database_time"))?.try_get("database_time")?)
}

/// Which row a background task may begin with, and how many it takes.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    pub now: Timestamp,
    pub size: i64,
}
