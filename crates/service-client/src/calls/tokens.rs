//! Tokens for automation, the MCP pair, and leaks of either.

use service_api::{
    cli_tokens::{CreateCliToken, CreatedCliToken, ListedCliToken, RotateCliToken, StatusFilter},
    endpoints,
    ids::CliTokenId,
    leaks::{ReportReceived, TokenLeaks},
    mcp_tokens::{CreateMcpTokens, McpTokens, RefreshMcpTokens},
    page::Page,
    token::AccessToken,
};

use crate::{Client, Error};

impl Client {
    /// Makes a token for automation; its secret is in this answer and never again.
    pub async fn create_cli_token(
        &self,
        token: &AccessToken,
        wanted: &CreateCliToken,
    ) -> Result<CreatedCliToken, Error> {
        self.call(&endpoints::CREATE_CLI_TOKEN, &[]).bearer(token).json(wanted).answer().await
    }

    pub async fn list_cli_tokens(
        &self,
        token: &AccessToken,
        status: StatusFilter,
        cursor: Option<&str>,
    ) -> Result<Page<ListedCliToken>, Error> {
        let query = [("status", Some(status.as_str())), ("cursor", cursor)];
        self.call(&endpoints::LIST_CLI_TOKENS, &[]).bearer(token).query(&query).answer().await
    }

    pub async fn revoke_cli_token(&self, token: &AccessToken, id: CliTokenId) -> Result<(), Error> {
        self.call(&endpoints::REVOKE_CLI_TOKEN, &[&id.to_string()]).bearer(token).done().await
    }

    pub async fn rotate_cli_token(
        &self,
        token: &AccessToken,
        id: CliTokenId,
        wanted: &RotateCliToken,
    ) -> Result<CreatedCliToken, Error> {
        self.call(&endpoints::ROTATE_CLI_TOKEN, &[&id.to_string()]).bearer(token).json(wanted).answer().await
    }

    /// Makes the pair that the platform's own MCP client works with.
    pub async fn create_mcp_tokens(&self, token: &AccessToken, wanted: &CreateMcpTokens) -> Result<McpTokens, Error> {
        self.call(&endpoints::CREATE_MCP_TOKENS, &[]).bearer(token).json(wanted).answer().await
    }

    pub async fn refresh_mcp_tokens(
        &self,
        token: &AccessToken,
        refresh: &RefreshMcpTokens,
    ) -> Result<McpTokens, Error> {
        self.call(&endpoints::REFRESH_MCP_TOKENS, &[]).bearer(token).json(refresh).repeatable().answer().await
    }

    /// Ends tokens that have leaked, whoever's they are.
    pub async fn report_leaks(&self, leaks: &TokenLeaks) -> Result<ReportReceived, Error> {
        self.call(&endpoints::TOKEN_LEAKS, &[]).json(leaks).answer().await
    }
}
