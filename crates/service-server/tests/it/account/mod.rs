//! A user's own account: its pages and its sessions.

pub(crate) mod address_change;
pub(crate) mod confirmations;
pub(crate) mod deletion;
pub(crate) mod erasure;
pub(crate) mod export;
pub(crate) mod export_contents;
pub(crate) mod new_sign_ins;
pub(crate) mod pages;
pub(crate) mod passkeys;
pub(crate) mod profile;
pub(crate) mod secure;
pub(crate) mod sessions;
pub(crate) mod tokens;
