//! The OAuth endpoints and their metadata documents.

pub mod backchannel_logout;
pub mod client_authentication;
pub mod introspect;
pub mod jwks;
pub mod metadata;
pub mod register;
pub mod revoke;
pub mod token;
