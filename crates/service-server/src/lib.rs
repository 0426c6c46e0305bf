//! The service: HTTP outside, flows inside, rules at the core, PostgreSQL below.
//!
//! `http` translates, `flows` tell the story of a request, `service-rules` judges, `store` remembers.

pub mod app;
pub mod audit;
pub mod batches;
pub mod brand;
pub mod cli;
pub mod clock;
pub mod config;
pub mod crypto;
pub mod database;
pub mod flows;
pub mod http;
pub mod issuers;
pub mod locales;
pub mod mail;
pub mod net;
pub mod node_limits;
pub mod pagination;
pub mod server;
pub mod store;
pub mod tasks;
pub mod telemetry;
pub mod tokens;
