//! The contract between the service and everyone who calls it.
//!
//! Every path, request, response, error code, scope, id and secret that crosses the wire is named here, once.
//! The server implements this crate and the client calls it, so neither can drift from the other.

pub mod audit_events;
pub mod base62;
pub mod cli_tokens;
pub mod contents;
pub mod endpoints;
pub mod errors;
pub mod ids;
pub mod leaks;
pub mod mcp_tokens;
pub mod oauth;
pub mod page;
pub mod projects;
pub mod scope;
pub mod search;
pub mod sessions;
pub mod sign_in;
pub mod token;
pub mod whoami;
pub mod workspaces;

/// A moment, in UTC.
pub use jiff::Timestamp;

/// Writes moments as RFC 3339 in UTC with milliseconds, the one form the API speaks.
pub mod instant {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use crate::Timestamp;

    #[must_use]
    pub fn to_text(at: Timestamp) -> String {
        format!("{at:.3}")
    }

    pub fn serialize<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{at:.3}"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        Timestamp::deserialize(deserializer)
    }

    /// The same for moments that may not have come.
    pub mod option {
        use serde::{Deserialize as _, Deserializer, Serializer};

        use crate::Timestamp;

        pub fn serialize<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
            match at {
                Some(at) => super::serialize(at, serializer),
                None => serializer.serialize_none(),
            }
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
            Option::<Timestamp>::deserialize(deserializer)
        }
    }
}
