//! Randomness, root keys, digests and signatures of passkeys.

pub mod address_shard;
pub mod digest;
pub mod passkey_signature;
pub mod random;
pub mod root_keys;
