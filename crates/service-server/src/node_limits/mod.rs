//! Limits that protect this node from one user, one network or one certificate. They are kept in memory, and each node counts
//! separately.
//!
//! Limits that protect accounts are in the database (`flows/rate_limit.rs`).

pub mod network_places;
pub mod search_turns;
pub mod support_attempts;
pub mod user_limits;

use std::sync::atomic::{AtomicI64, Ordering};

use service_rules::{
    Timestamp,
    limits::{Allowance, Limited, Rate},
};

/// Counts a request at a steady rate, whose theoretical arrival time in microseconds is in memory.
fn count_at_rate(arrival: &AtomicI64, policy: &'static str, rate: Rate, now: Timestamp) -> Result<Allowance, Limited> {
    let mut known = arrival.load(Ordering::Relaxed);
    loop {
        let (next, allowance) = rate.count(policy, known, now)?;
        match arrival.compare_exchange_weak(known, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Ok(allowance),
            Err(other) => known = other,
        }
    }
}
