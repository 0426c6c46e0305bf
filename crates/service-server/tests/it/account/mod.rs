//! A user's own account: its pages and its sessions.

pub(crate) mod pages;
pub(crate) mod sessions;
