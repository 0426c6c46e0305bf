//! The service: HTTP outside, flows inside, rules at the core, PostgreSQL below.
//!
//! `http` translates, `flows` tell the story of a request, `service-rules` judges, `store` remembers.

pub mod app;
pub mod audit_chain;
pub mod cli_tokens;
pub mod clock;
pub mod config;
pub mod cursor;
pub mod database;
pub mod digest;
pub mod document_fetcher;
pub mod failure;
pub mod flows;
pub mod housekeeping;
pub mod http;
pub mod letters;
pub mod mailer;
pub mod migrations;
pub mod mint;
pub mod refresh_token;
pub mod revocation_feed;
pub mod revocations;
pub mod serve;
pub mod signing_keys;
pub mod store;
pub mod telemetry;
pub mod tls;
pub mod vault;
pub mod verified_tokens;
