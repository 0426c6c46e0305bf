//! Pages for people.

pub(crate) mod addresses;
pub(crate) mod brand;
pub(crate) mod connections;
pub(crate) mod flows;
pub(crate) mod languages;
pub(crate) mod markup;
pub(crate) mod resume;
