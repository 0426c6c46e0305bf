//! Randomness, root keys and digests.

pub mod digest;
pub mod random;
pub mod root_keys;
