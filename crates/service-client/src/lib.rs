//! A client of the service's API.
//!
//! [`Client`] has a function for each operation of the API, with the types of [`service_api`]. [`Session`] keeps the tokens of a
//! sign-in in a [`TokenStore`] and refreshes them when they expire, also when several processes share them.
//!
//! # Example
//!
//! Signing in with a one-time code, and listing the workspaces of the user:
//!
//! ```no_run
//! use service_api::{oauth::SERVICE_CLI, token::OtpCode};
//! use service_client::{Client, EnteredCode, Error};
//!
//! async fn list_workspaces(email: &str, read_code: impl AsyncFnOnce() -> String) -> Result<Vec<String>, Error> {
//!     let client = Client::new("https://service.example")?;
//!     let requested = client.request_otp(email, SERVICE_CLI, None).await?;
//!     let code = OtpCode::new(read_code().await);
//!     let entered = EnteredCode { otp_id: requested.otp_id, code };
//!     let tokens = client.exchange_otp(SERVICE_CLI, entered, "read", None).await?;
//!     let workspaces = client.list_workspaces(&tokens.access_token, None).await?;
//!     Ok(workspaces.data.into_iter().map(|workspace| workspace.name).collect())
//! }
//! ```
//!
//! # Errors
//!
//! Every call returns [`Error`]. [`Error::Refused`] is an error response of the service; its code says what to do, and
//! [`Error::is_code`] tests for one. [`Error::is_passing`] says whether a retry can succeed.
//!
//! # Retries
//!
//! A request is sent up to three times if the connection breaks or the service is temporarily unavailable, and if repeating it
//! is safe. Requests that create something or send an email are sent once.

mod calls;
mod client;
mod error;
mod lock;
pub mod private_file;
mod session;

pub use self::{
    calls::{contents::ContentAddress, mcp::McpResponse, oauth::EnteredCode},
    client::{Client, Exchange, PublicResponse, Raw},
    error::{Error, Refusal, Trouble},
    lock::{Lock, LockError},
    session::{Access, RefreshKind, Session, SessionError, StoreError, TokenStore, lock_all},
};
