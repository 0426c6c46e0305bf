//! The contract of the service's API: every path, request, response, error code, scope, ID and kind of secret.
//!
//! The server implements this crate and the client calls it, so that the two cannot disagree. The crate does no I/O.
//!
//! # Where to start
//!
//! - [`endpoints`] declares every endpoint: method, path, who may call it, and the types of its bodies.
//! - The types of the bodies are in modules that are named like the paths: [`cli_tokens`], [`sessions`], [`workspaces`] and so
//!   on. A list returns a [`page::Page`].
//! - [`errors::ErrorBody`] is the body of every error response.
//! - [`token`] has a type for each kind of secret. They hide their value in `Debug`.
//! - [`openapi`] makes the `OpenAPI` document and the manual.
//!
//! # Example
//!
//! An operation knows its row, and the types of its bodies are type parameters:
//!
//! ```
//! use service_api::{
//!     endpoints::{self, Access, Method, Operation},
//!     scope::{Action, Resource, Scope},
//!     workspaces::{NameWorkspace, Workspace},
//! };
//!
//! let operation: &Operation<NameWorkspace, Workspace> = &endpoints::CREATE_WORKSPACE;
//! assert_eq!(operation.path(), "/v1/workspaces");
//! let row = &operation.row;
//! assert_eq!((row.endpoint.method, row.status), (Method::Post, 201));
//! assert_eq!(row.endpoint.access, Access::Bearer(Scope::of(Action::Write, Resource::Workspaces)));
//!
//! let body = serde_json::to_string(&NameWorkspace { name: "Acme".to_owned() })?;
//! assert_eq!(body, r#"{"name":"Acme"}"#);
//! # Ok::<(), serde_json::Error>(())
//! ```

pub mod account;
pub mod account_deletion;
pub mod account_exports;
pub mod address_change;
pub mod audit_events;
pub mod base62;
pub mod cli_tokens;
pub mod connections;
pub mod consents;
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
pub mod passkeys;
pub mod scope;
pub mod search;
pub mod secure_account;
pub mod sessions;
pub mod shard;
pub mod sign_in;
pub mod token;
pub mod whoami;
pub mod workspaces;

/// A timestamp in UTC.
pub use jiff::Timestamp;

/// A JSON object whose members are not declared as a type here.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;
