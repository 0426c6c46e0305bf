//! Randomness, root keys and digests.

pub mod address_shard;
pub mod digest;
pub mod random;
pub mod root_keys;
