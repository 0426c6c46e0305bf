//! Workspaces, members and invitations.

pub(crate) mod cached_roles;
pub(crate) mod confirmations;
pub(crate) mod invitations;
pub(crate) mod members;
pub(crate) mod owner_pages;
pub(crate) mod pages;
pub(crate) mod passkeys;
