//! Helpers that several tests share.

pub(crate) mod access;
pub(crate) mod admin;
pub(crate) mod audit;
pub(crate) mod authorize;
pub(crate) mod bearer;
pub(crate) mod cli_tokens;
pub(crate) mod connections;
pub(crate) mod contents;
pub(crate) mod deleted_contents;
pub(crate) mod devices;
pub(crate) mod failover;
pub(crate) mod forge;
pub(crate) mod mail;
pub(crate) mod mcp;
pub(crate) mod mcp_tokens;
pub(crate) mod otp;
pub(crate) mod otp_kinds;
pub(crate) mod projects;
pub(crate) mod provider;
pub(crate) mod refresh;
pub(crate) mod revocations;
pub(crate) mod revoke;
pub(crate) mod spaces;
pub(crate) mod sso;
pub(crate) mod step_up;
pub(crate) mod workspaces;
