//! The audit chain and the keys that seal personal fields of audit events.

pub mod chain;
pub mod keys;
