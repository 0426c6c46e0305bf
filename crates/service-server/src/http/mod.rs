//! HTTP: requests into calls, results into responses. No decisions are made here.

pub mod body;
pub mod caller;
pub mod connection;
pub mod cors;
mod deadline;
pub mod edge;
pub mod errors;
pub mod exchange;
mod framing;
mod guarded_stream;
mod head;
pub mod idempotency;
pub mod mcp;
pub mod oauth;
pub mod operation;
pub mod ops;
pub mod outgoing;
pub mod pages;
pub mod paging;
pub mod passkey_endpoints;
pub mod path;
pub mod query;
pub mod router;
pub mod routes;
pub mod space;
pub mod support;
pub mod v1;
