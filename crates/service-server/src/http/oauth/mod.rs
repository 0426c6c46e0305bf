//! The OAuth endpoints.

pub mod client_authentication;
pub mod introspect;
pub mod jwks;
pub mod revoke;
pub mod token;
