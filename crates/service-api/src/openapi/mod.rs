//! The description of the API: the `OpenAPI` 3.1 document and the manual. Both are made from [`OPERATIONS`] and the types of
//! the bodies.
//!
//! [`OPERATIONS`]: crate::endpoints::OPERATIONS

mod content_schemas;
mod document;
mod enums;
mod group;
mod manual;
mod parameters;
mod responses;
mod schemas;
mod words;

pub use self::{
    document::{document, examples},
    group::Group,
    manual::{anchor, manual},
    schemas::{Shape, standalone_request, standalone_response},
};
