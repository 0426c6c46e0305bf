//! Workspaces, members and invitations.

pub(crate) mod invitations;
pub(crate) mod members;
pub(crate) mod pages;
