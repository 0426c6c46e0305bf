//! The rules of access, as plain functions: facts and the time go in, a verdict comes out.
//!
//! This is the crate to read to know what the service allows. It does no I/O, reads no clock and draws no
//! randomness, so it can be tested to exhaustion.

pub mod authorization;
pub mod bearer;
pub mod cli_tokens;
pub mod clients;
pub mod codes;
pub mod consent;
pub mod contents;
pub mod credential;
pub mod email;
pub mod json;
pub mod lifetimes;
pub mod limits;
pub mod network;
pub mod otp;
pub mod redirect;
pub mod registration;
pub mod resources;
pub mod revocation;
pub mod rotation;
pub mod scope_of_content;
pub mod scopes;
pub mod signing;
pub mod space;

pub use service_api::Timestamp;
