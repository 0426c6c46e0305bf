//! The contract between the service and everyone who calls it.
//!
//! Every path, request, response, error code, scope, id and secret that crosses the wire is named here, once.
//! The server implements this crate and the client calls it, so neither can drift from the other.

pub mod audit_events;
pub mod base62;
pub mod cli_tokens;
pub mod contents;
pub mod endpoints;
pub mod errors;
mod forms;
pub mod ids;
pub mod instant;
pub mod leaks;
pub mod mcp_tokens;
pub mod oauth;
pub mod openapi;
pub mod page;
pub mod projects;
pub mod scope;
pub mod search;
pub mod sessions;
pub mod sign_in;
pub mod token;
pub mod whoami;
pub mod workspaces;

/// A moment, in UTC.
pub use jiff::Timestamp;
