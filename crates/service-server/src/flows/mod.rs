//! One file for each thing the service does, to be read from top to bottom.
//!
//! A flow reads the clock once, opens its own transaction, asks `store` for facts and `service-rules` for the verdict,
//! and carries the verdict out. It knows nothing of HTTP.

pub mod account;
pub mod actor;
pub mod audit;
pub mod authenticate;
pub mod bounces;
pub mod clients;
pub mod contents;
pub mod oauth;
pub mod operations;
pub mod operator;
pub mod passkeys;
pub mod rate_limit;
pub(crate) mod recovery_codes;
mod request_meta;
pub mod revocation;
pub mod rotate_signing_keys;
pub mod sessions;
pub mod sign_in;
pub mod sso;
pub mod support;
pub mod tokens;
pub mod whoami;
pub mod workspaces;

use service_rules::Timestamp;

pub(crate) use self::request_meta::node_event;
pub use self::{actor::Actor, request_meta::RequestMeta};
use crate::{
    app::App,
    database::{Connection, Error},
    store,
};

/// Fails if this node's clock is wrong: limits would open early, codes would live too long, and keys would sign before
/// verifiers know them.
async fn check_clock(app: &App, db: &Connection, now: Timestamp) -> Result<(), Error> {
    if app.clock.is_off(now, store::database_time(db).await?) {
        return Err(Error::Unavailable("this node's clock differs from the database's".into()));
    }
    Ok(())
}
