//! The description of the API: `OpenAPI` 3.1 for programs and a manual for people, both from the table of endpoints and the
//! types that cross the wire.

mod document;
mod group;
mod manual;
mod operations;
mod schemas;
mod words;

pub use self::{
    document::{document, errors, examples},
    group::Group,
    manual::{anchor, manual},
    operations::{Header, Operation, all},
    schemas::Shape,
};
