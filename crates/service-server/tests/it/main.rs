//! The service from outside: one file for each flow, real PostgreSQL, real mail, real sockets.
//!
//! Names are sentences; one that ends in a row's id of docs/negative-tests.md is that row's test.

mod access;
mod account;
mod audit;
mod bearer;
mod cli_tokens;
mod clients;
mod contents;
mod docs;
mod http;
mod leaks;
mod mail;
mod mcp;
mod mcp_tokens;
mod oauth;
mod operations;
mod otp;
mod pages;
mod passkeys;
mod refresh;
mod revocation;
mod sso;
mod support;
mod support_listener;
mod workspaces;
