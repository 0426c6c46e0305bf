//! Projects, packs, playbooks, cases and records.

pub(crate) mod deleted;
pub(crate) mod deleted_races;
pub(crate) mod kinds;
pub(crate) mod projects;
pub(crate) mod projects_query;
pub(crate) mod roles;
pub(crate) mod safety;
pub(crate) mod search;
pub(crate) mod search_quota;
pub(crate) mod spellings;
