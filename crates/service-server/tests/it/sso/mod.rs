//! Single sign-on: what owners set up, and sign-ins through a provider on this machine.

mod callback;
mod client_key;
mod connections;
mod domain_races;
mod domains;
mod existing;
mod hand_off;
pub(crate) mod issuer_tokens;
pub(crate) mod issuers;
mod leaving;
mod link;
mod logout;
mod required;
mod revoking;
mod sign_in;
mod try_connection;
mod weekly_checks;
