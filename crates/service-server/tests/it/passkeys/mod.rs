//! Passkeys: signing in by one, and the page that adds and removes them.

mod account;
mod lineage;
mod races;
mod recovery;
mod recovery_codes;
mod refused;
mod required;
mod sign_in;
mod step_up;
