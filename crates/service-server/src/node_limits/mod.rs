//! Limits that protect this node from one user or one network. They are kept in memory, and each node counts
//! separately.
//!
//! Limits that protect accounts are in the database (`flows/rate_limit.rs`).

pub mod network_places;
pub mod search_turns;
pub mod user_limits;
