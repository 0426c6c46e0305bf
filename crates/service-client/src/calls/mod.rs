//! The functions of [`Client`](crate::Client) for the operations of the API.

mod contents;
mod oauth;
mod sessions;
mod sign_in;
mod tokens;
mod workspaces;
