//! Audit events: reading them, their keys, their monthly partitions, sealing the chain and verifying it.

pub mod events;
pub mod keys;
pub mod named_events;
pub mod partitions;
pub mod sealing;
pub mod verification;
