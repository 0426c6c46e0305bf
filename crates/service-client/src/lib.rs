//! Typed calls to the service: the contract's types over HTTP, and errors that say what to do.

mod client;
mod error;

pub use self::{client::Client, error::Error};
