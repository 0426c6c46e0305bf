//! SQL statements: one file for each table, one function for each statement.
//!
//! Every function takes a connection, so the flow that calls it decides what is one transaction. Every statement is a
//! raw string literal, so that a test can find them all and prepare each against the migrated schema.
//!
//! A statement about tables with a column `shard` touches the rows of one shard, unless a comment at its beginning says
//! otherwise: `/* every shard */`, `/* entered spaces */` for those of the user and of one workspace,
//! `/* shards of one database */` for rows of several users, or `/* housekeeping */` for background work on all rows of a
//! database. The other tables belong to no user, and every database has them for
//! itself. See `service_api::shard`.

pub mod account_deletions;
pub mod account_exports;
pub mod address_changes;
pub mod address_key;
pub mod audit_events;
pub mod audit_keys;
pub mod audit_months;
pub mod audit_seals;
pub mod authorization_codes;
pub mod blocked_client_hosts;
pub mod blocked_workspaces;
pub mod browser_sessions;
pub mod cli_tokens;
pub mod client_assertions;
pub mod client_grants;
pub mod clients;
pub mod confirmations;
pub mod connection_grants;
pub mod connections;
pub mod consents;
pub mod contents;
pub mod deleted_contents;
pub mod deletions;
pub mod devices;
pub mod emails;
pub mod erasure;
pub mod grant_batches;
pub mod grants;
pub mod idempotency_keys;
pub mod identities;
pub mod installation;
pub mod invitations;
pub mod lineage;
pub mod logout_tokens;
pub mod measurements;
pub mod members;
pub mod memberships;
pub mod node_heartbeats;
pub mod otps;
pub mod outbox;
pub mod pack_search;
pub mod passkey_credentials;
pub mod passkey_recoveries;
pub mod passkeys;
pub mod personal_data;
pub mod personal_sign_ins;
pub mod rates;
pub mod received_invitations;
pub mod recent_hits;
pub mod recovery_codes;
pub mod revocations;
pub mod root_key_checks;
pub mod routed_domains;
pub mod sent_invitations;
pub mod servers;
pub mod several;
pub mod sign_in_flows;
pub mod sign_in_reports;
pub mod signing_keys;
pub mod space_usage;
pub mod support_clients;
pub mod suppressed_addresses;
pub mod trusted_issuers;
pub mod user_connections;
pub mod user_devices;
pub mod users;
pub mod workspace_credentials;
pub mod workspace_domains;
pub mod workspaces;

use std::collections::BTreeMap;

use service_api::{ids::Id, shard::Shard};
use service_rules::Timestamp;
use uuid::Uuid;

use crate::database::{Connection, Error};

/// Returns the number of the shard of a digest.
fn shard_of_key(key: &[u8]) -> i16 {
    Shard::of_bytes(key.first_chunk().copied().unwrap_or_default()).number()
}

/// Groups ids by the number of their shard.
fn by_shard<I: Id>(ids: &[I]) -> BTreeMap<i16, Vec<Uuid>> {
    let mut grouped = BTreeMap::<_, Vec<_>>::new();
    for id in ids {
        grouped.entry(id.shard().number()).or_default().push(id.uuid());
    }
    grouped
}

/// The error for a row that the service could not have written.
fn impossible(table: &str, column: &str) -> Error {
    Error::Defect(format!("{table}.{column} holds a value that the service never writes"))
}

/// Checks that the database answers.
pub async fn ping(db: &Connection) -> Result<(), Error> {
    db.query(r"select 1", &[]).await.map(drop)
}

/// Returns the time of the database. It decides nothing; it only shows whether this node's clock is wrong.
pub async fn database_time(db: &Connection) -> Result<Timestamp, Error> {
    let row = db.query_opt(r"select clock_timestamp() as database_time", &[]).await?;
    Ok(row.ok_or_else(|| impossible("the clock", "database_time"))?.try_get("database_time")?)
}

/// The time and the size of one batch of background work.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    pub now: Timestamp,
    pub size: i64,
}
