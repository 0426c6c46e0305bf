//! Revocation: the feed, its latency, and what is revoked along.

pub(crate) mod feed;
pub(crate) mod feed_cost;
pub(crate) mod followers;
pub(crate) mod latency;
pub(crate) mod lineage;
