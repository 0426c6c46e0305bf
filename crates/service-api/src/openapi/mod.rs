//! The description of the API: the `OpenAPI` 3.1 document and the manual. Both are made from [`OPERATIONS`] and the types of
//! the bodies.
//!
//! [`OPERATIONS`]: crate::endpoints::OPERATIONS

mod document;
mod group;
mod manual;
mod schemas;
mod words;

pub use self::{
    document::{document, examples},
    group::Group,
    manual::{anchor, manual},
    schemas::{Shape, standalone_request, standalone_response},
};
