//! The service from outside: one file for each flow, real PostgreSQL, real mail, real sockets.
//!
//! Names are sentences; one that ends in a row's id of docs/negative-tests.md is that row's test.

mod access;
mod bearer;
mod bodies;
mod config;
mod http_limits;
mod keys;
mod login_options;
mod mail;
mod otp;
mod processes;
mod readme;
mod sign_in;
mod spaces;
mod statements;
mod tidy;
mod token_endpoint;
