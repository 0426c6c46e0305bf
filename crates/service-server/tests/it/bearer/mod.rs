//! Bearer tokens: placement, claims, forgeries and keys.

pub(crate) mod claims;
pub(crate) mod forgeries;
pub(crate) mod keys;
pub(crate) mod placement;
pub(crate) mod signing_keys;
pub(crate) mod whoami;
