//! A client of the service's API.
//!
//! [`Client`] has a function for each operation of the API, with the types of [`service_api`]. [`Session`] keeps the tokens of a
//! sign-in in a [`TokenStore`] and refreshes them when they expire, also when several processes share them.
//!
//! # With a CLI token
//!
//! Printing every project of a user, page after page:
//!
//! ```no_run
//! use service_api::{contents::Kind, token::AccessToken};
//! use service_client::{Client, Error};
//!
//! async fn print_projects(cli_token: String) -> Result<(), Error> {
//!     let client = Client::new("https://service.example")?;
//!     // The type hides the token from `Debug`.
//!     let token = AccessToken::new(cli_token);
//!     let mut cursor = None;
//!     loop {
//!         let page = client.list_contents(&token, Kind::Project, None, cursor.as_deref()).await?;
//!         for project in page.data {
//!             println!("{} {:?}", project.id, project.fields.get("name"));
//!         }
//!         cursor = page.next_cursor;
//!         if cursor.is_none() {
//!             return Ok(());
//!         }
//!     }
//! }
//! ```
//!
//! `examples/rust` in the repository is the whole program.
//!
//! # With a one-time code
//!
//! Signing a user in, and listing their workspaces:
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
//! A program that runs for longer than an access token lives, or of which several processes run, keeps these tokens in a
//! [`TokenStore`] and calls through a [`Session`]. Of all tasks and processes one refreshes at a time, and the others use its
//! tokens.
//!
//! # Spaces
//!
//! Content is in the personal space of a user, or in a workspace. Calls take `workspace`: the ID of a workspace, `personal`, or
//! `None` for the default of the token.
//!
//! # Errors
//!
//! Every call returns [`Error`]. [`Error::Refused`] is an error response of the service; its code says what to do, and
//! [`Error::is_code`] tests for one. [`Error::is_passing`] says whether a retry can succeed.
//!
//! # Retries
//!
//! A request is sent up to three times if the connection breaks or the service is temporarily unavailable, and if repeating it
//! is safe. Requests that create something or send an email are sent once, unless they have an idempotency key.

#![warn(missing_docs)]

mod calls;
mod client;
mod error;
mod lock;
pub mod private_file;
mod session;

pub use self::{
    calls::{
        account::ExportDownload,
        contents::{ContentAddress, NewContent, VersionedContent},
        mcp::McpResponse,
        oauth::EnteredCode,
    },
    client::{Client, Exchange, PublicResponse, Raw},
    error::{Error, Refusal, Trouble},
    lock::{Lock, LockError},
    session::{Access, RefreshKind, Session, SessionError, StoreError, TokenStore, lock_all},
};
