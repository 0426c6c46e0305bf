//! What documents and sources must hold to.

pub(crate) mod chart;
pub(crate) mod configuration;
pub(crate) mod description;
pub(crate) mod documents;
pub(crate) mod generated_clients;
pub(crate) mod layers;
pub(crate) mod quickstart;
pub(crate) mod readme;
pub(crate) mod reference;
pub(crate) mod specification;
pub(crate) mod statements;
pub(crate) mod tidy;
