//! `/v1/mcp/tokens`: the pair of tokens that the platform's own MCP client works with.

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
    /// The space that the pair works in when a request names none: a workspace's id or `personal`; left out, the maker's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "named_space_or_null")]
    pub workspace_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

/// `POST /v1/mcp/tokens/refresh`
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RefreshMcpTokens {
    pub refresh_token: PresentedToken,
}

/// The pair, and the client that it is for.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct McpTokens {
    #[serde(flatten)]
    pub tokens: TokenResponse<McpRefresh>,
    pub client_id: String,
}
