//! The OAuth endpoints.

pub(crate) mod authorization_code_grant;
pub(crate) mod authorization_code_races;
pub(crate) mod authorize;
pub(crate) mod authorize_errors;
pub(crate) mod consent_expiry;
pub(crate) mod consent_narrowing;
pub(crate) mod consent_prompt;
pub(crate) mod consents;
pub(crate) mod jwks;
pub(crate) mod metadata;
pub(crate) mod redirect_uris;
pub(crate) mod revoke;
pub(crate) mod token_endpoint;
