//! Audit events: reading, sealing, privacy and retention.

pub(crate) mod events;
pub(crate) mod partitions;
pub(crate) mod privacy;
pub(crate) mod sealing;
pub(crate) mod tampering;
