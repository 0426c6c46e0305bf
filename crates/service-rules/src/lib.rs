//! The access rules of the service, as pure functions: facts and the current time go in, a verdict comes out.
//!
//! Read this crate to learn what the service allows. It does no I/O, reads no clock and draws no randomness, so its
//! functions can be tested exhaustively. The server reads the facts from PostgreSQL, calls a rule, and carries out its
//! verdict.
//!
//! | question | module |
//! |---|---|
//! | Does this bearer token authorize the request? | [`bearer`], [`credential`], [`revocation`], [`cli_tokens`] |
//! | What does this refresh token mean? | [`rotation`] |
//! | What does this authorization request ask for, and may the user skip the prompt? | [`authorization`], [`consent`], [`consent_expiry`] |
//! | Does this assertion authenticate its client? | [`client_assertions`] |
//! | May this client use this grant, and where may its responses go? | [`clients`], [`registration`], [`redirect`] |
//! | Does this code sign the user in? | [`otp`], [`codes`], [`step_up`] |
//! | Does this passkey sign the user in? | [`passkeys`] |
//! | What does a token of an identity provider say? | [`id_token`], [`logout_token`] |
//! | Whose account is this user of an identity provider? | [`sso`] |
//! | What may this user do in this workspace? | [`space`], [`scope_of_content`] |
//! | Which domains and providers can a workspace connect? | [`domains`], [`connections`] |
//! | How often, and for how long? | [`limits`], [`network_rates`], [`lifetimes`] |
//! | Is a user mailed about this sign-in? | [`new_sign_in`] |
//! | Is this text a recovery code? | [`recovery_codes`] |
//! | Does this bounce stop mail to an address? | [`bounces`] |
//! | Which trace does this request belong to, and is it recorded? | [`trace_context`] |
//!
//! A function that refuses returns an error type of its own, which implements [`std::error::Error`]. Its text is for
//! logs. Where a refusal has to be written down before the caller is told, the function returns a verdict instead.
//!
//! # Example
//!
//! A client presents the newest refresh token of a session, and gets the next one. A minute later it presents a token
//! whose successor was used long ago: two parties have it, and the session is revoked.
//!
//! ```
//! use service_api::errors::Reason;
//! use service_rules::{
//!     Timestamp,
//!     rotation::{Generations, Grant, PresentedRefreshToken, RotationVerdict, judge},
//! };
//!
//! let now: Timestamp = "2027-01-15T12:00:00Z".parse().unwrap();
//! let grant = Grant {
//!     client_id: "service-cli".to_owned(),
//!     generations: Generations { base: 6, issued: 7 },
//!     rotated_at: "2027-01-15T11:00:00Z".parse().unwrap(),
//!     rotated_from: None,
//!     expires_at: "2027-04-01T00:00:00Z".parse().unwrap(),
//!     ended: None,
//!     user_disabled: false,
//!     workspace_left: false,
//!     sso_until: None,
//! };
//! let newest = PresentedRefreshToken {
//!     genuine: true,
//!     generation: 7,
//!     client_id: Some("service-cli"),
//!     address: [203, 0, 113, 9].into(),
//! };
//! assert_eq!(judge(&newest, &grant, now), RotationVerdict::Rotate);
//!
//! let old = PresentedRefreshToken { generation: 3, ..newest };
//! assert_eq!(judge(&old, &grant, now), RotationVerdict::Revoke(Reason::Replayed));
//! ```

pub mod authorization;
pub mod bearer;
pub mod bounces;
pub mod cli_tokens;
pub mod client_assertions;
pub mod client_links;
pub mod clients;
pub mod codes;
pub mod connections;
pub mod consent;
pub mod consent_expiry;
pub mod contents;
pub mod credential;
pub mod display_name;
pub mod domains;
pub mod email;
pub mod field_name;
pub mod id_token;
pub mod json;
pub mod lifetimes;
pub mod limits;
pub mod lineage;
pub mod logout_token;
pub mod network;
pub mod network_rates;
pub mod new_sign_in;
pub mod otp;
pub mod passkeys;
pub mod person_name;
pub mod recovery_codes;
pub mod redirect;
pub mod registration;
pub mod resources;
pub mod restore;
pub mod revocation;
pub mod rotation;
pub mod scope_of_content;
pub mod scopes;
pub mod signing;
pub mod space;
pub mod sso;
pub mod step_up;
pub mod trace_context;
pub mod user_agent;

pub use service_api::Timestamp;
