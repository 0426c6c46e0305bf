//! Tokens on this node: signing keys, refresh tokens, caches of accepted tokens, and revocations.

pub mod cli_token_cache;
pub mod membership_cache;
pub mod refresh_token;
pub mod revocations;
pub mod signing_keys;
pub mod sso_state;
pub mod verified_cache;
pub mod whoami_cache;
