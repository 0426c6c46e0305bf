//! Who may call what.

pub(crate) mod credential_kinds;
pub(crate) mod endpoints;
pub(crate) mod spaces;
pub(crate) mod spaces_of_tokens;
pub(crate) mod step_up;
