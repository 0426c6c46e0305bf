//! The OAuth endpoints: authorization, consent, the grants of `/oauth/token`, introspection, revocation and registration.

pub mod authorization_code_grant;
pub mod authorize;
pub mod client_metadata;
pub mod consent_decision;
pub mod consent_prompt;
pub mod consents;
pub mod introspect;
pub mod issue;
pub mod otp_grant;
pub mod refresh_grant;
pub mod register_client;
pub mod revoke;
pub mod token_error;
