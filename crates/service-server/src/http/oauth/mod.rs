//! The OAuth endpoints.

pub mod jwks;
pub mod token;
