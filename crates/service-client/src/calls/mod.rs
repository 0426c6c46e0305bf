//! The functions of [`Client`](crate::Client) for the operations of the API.

pub(crate) mod account;
mod connections;
pub(crate) mod contents;
pub(crate) mod mcp;
pub(crate) mod oauth;
mod passkeys;
mod sessions;
mod sign_in;
mod tokens;
mod workspaces;
