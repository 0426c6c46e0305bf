//! `/v1/mcp/tokens`: the tokens of the first-party MCP client.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    oauth::TokenResponse,
    token::{McpRefresh, PresentedToken},
    workspaces::named_space_or_null,
};

/// `POST /v1/mcp/tokens`
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateMcpTokens {
    /// The default space of the tokens: a workspace's id or `personal`. Default: that of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "named_space_or_null")]
    pub workspace_id: Option<String>,
    /// Scopes, separated by spaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Scopes, as a list. Send this or `scope`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
}

/// `POST /v1/mcp/tokens/refresh`
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RefreshMcpTokens {
    /// The newest refresh token of the pair.
    pub refresh_token: PresentedToken,
}

/// An access token and a refresh token for MCP, and their client.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct McpTokens {
    #[serde(flatten)]
    pub tokens: TokenResponse<McpRefresh>,
    /// The client of the tokens: `service-mcp`.
    pub client_id: String,
}
