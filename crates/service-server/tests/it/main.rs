//! The service from outside: one file for each flow, real PostgreSQL, real mail, real sockets.
//!
//! Names are sentences; one that ends in a row's id of docs/negative-tests.md is that row's test.

mod access;
mod bearer;
mod bearer_claims;
mod bearer_forgeries;
mod bearer_keys;
mod bodies;
mod config;
mod forge;
mod http_claims;
mod http_framing;
mod http_limits;
mod jwks;
mod keys;
mod leaks;
mod login_options;
mod mail;
mod mail_transport;
mod manual;
mod otp;
mod otp_addresses;
mod otp_alike;
mod otp_grant;
mod otp_limits;
mod otp_networks;
mod otp_races;
mod outages;
mod processes;
mod projects;
mod projects_query;
mod readme;
mod refresh;
mod refresh_races;
mod refresh_standing;
mod refusals;
mod revoke;
mod sessions;
mod sign_in;
mod spaces;
mod spaces_of_tokens;
mod startup;
mod statements;
mod tidy;
mod token_endpoint;
