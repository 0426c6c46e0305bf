//! A user's own account: its pages and its sessions.

pub(crate) mod confirmations;
pub(crate) mod pages;
pub(crate) mod passkeys;
pub(crate) mod sessions;
pub(crate) mod tokens;
