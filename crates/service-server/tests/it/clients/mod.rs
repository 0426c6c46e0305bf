//! Clients: registration, metadata documents, administration, names.

pub(crate) mod administration;
pub(crate) mod display_names;
pub(crate) mod links;
pub(crate) mod metadata_documents;
pub(crate) mod registration;
