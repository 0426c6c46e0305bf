//! One function for each endpoint, grouped as the contract groups them.

mod contents;
mod oauth;
mod sessions;
mod sign_in;
mod tokens;
mod workspaces;
