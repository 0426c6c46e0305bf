//! `/v1/consents`: the access that a user gave to third-party apps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Timestamp,
    ids::{ConsentId, WorkspaceId},
    instant,
    scope::Scopes,
};

/// The access that a user gave to a client, for one redirect host and one resource.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Consent {
    /// The ID of the consent.
    pub id: ConsentId,
    /// The client that has access.
    pub client: ConsentClient,
    /// The host of the redirect URI, or the app's scheme if it has no host.
    pub redirect_host: String,
    /// The resource that the client's tokens are for: this API, or MCP.
    pub resource: String,
    /// The scopes that the user approved.
    pub scopes: Scopes,
    /// The space that the client works in. Absent: personal space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    /// When the user last consented.
    #[serde(with = "instant::Written")]
    pub granted_at: Timestamp,
    /// The end date that the user chose. No session of the client lasts longer, and the user is then prompted again.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "instant::WrittenIfAny")]
    pub expires_at: Option<Timestamp>,
    /// When the client last obtained tokens. A consent that is not used for 90 days expires.
    #[serde(with = "instant::Written")]
    pub last_used_at: Timestamp,
}

/// The client of a consent.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ConsentClient {
    /// The ID of the client.
    pub id: String,
    /// The name of the client.
    pub name: String,
    /// Whether an operator verified the name. Any other client chose it itself.
    pub verified: bool,
}
