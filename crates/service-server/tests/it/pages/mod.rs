//! Pages for people.

pub(crate) mod connections;
pub(crate) mod flows;
pub(crate) mod languages;
pub(crate) mod markup;
