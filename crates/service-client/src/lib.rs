//! Typed calls to the service: the contract's types over HTTP, a session that refreshes itself, and errors that say what
//! to do.

mod calls;
mod client;
mod error;
mod lock;
pub mod private_file;
mod session;

pub use self::{
    client::{Client, Exchange, Raw},
    error::{Error, Refusal, Trouble},
    lock::{Busy, Lock},
    session::{Access, Session, SessionError, StoreError, TokenStore, lock_all},
};
