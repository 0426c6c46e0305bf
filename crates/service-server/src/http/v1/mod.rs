//! The endpoints under `/v1`.

pub mod account;
pub mod account_exports;
pub mod address_change;
pub mod audit_events;
pub mod cli_tokens;
pub mod connections;
pub mod consents;
pub mod contents;
pub mod domains;
pub mod invitations;
pub mod login_options;
pub mod mcp_tokens;
pub mod otp_tokens;
pub mod passkeys;
pub mod sessions;
pub mod token_leaks;
pub mod whoami;
pub mod workspaces;
