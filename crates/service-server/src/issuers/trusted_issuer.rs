//! An outside issuer, as the database stores it.

use serde_json::Value;
use service_api::ids::IssuerId;

/// An issuer whose tokens a workspace accepts.
#[derive(Clone, Debug)]
pub struct TrustedIssuer {
    pub id: IssuerId,
    /// Compared byte for byte.
    pub issuer: String,
    /// Its keys, if an owner pasted them. They are never fetched then.
    pub jwks: Option<Value>,
    /// The algorithms that its tokens may be signed with.
    pub algorithms: Vec<String>,
    /// What its tokens are accepted for, such as `sign_in`.
    pub purposes: Vec<String>,
}
