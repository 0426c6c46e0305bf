//! Revocation: the feed, its latency, and what is revoked along.

pub(crate) mod feed;
pub(crate) mod latency;
pub(crate) mod lineage;
