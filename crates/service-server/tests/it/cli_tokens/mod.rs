//! CLI tokens.

pub(crate) mod batches;
pub(crate) mod create;
pub(crate) mod latency;
pub(crate) mod life;
pub(crate) mod owner;
