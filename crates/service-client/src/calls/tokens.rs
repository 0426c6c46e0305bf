//! CLI tokens, MCP tokens, and leaked tokens.

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

/// CLI tokens, MCP tokens, and leaked tokens.
///
/// # Errors
/// [`Error::Refused`] with `insufficient_user_authentication` if the user signed in more than 15 minutes ago and the call creates
/// a token, with `not_found` if the user has no such token, with `conflict` if the user has too many.
impl Client {
    /// Creates a CLI token. Its secret is only in this response.
    pub async fn create_cli_token(
        &self,
        token: &AccessToken,
        wanted: &CreateCliToken,
    ) -> Result<CreatedCliToken, Error> {
        self.call_with(&endpoints::CREATE_CLI_TOKEN, &[], wanted).bearer(token).send().await
    }

    /// Lists the CLI tokens of the user, newest first.
    pub async fn list_cli_tokens(
        &self,
        token: &AccessToken,
        status: StatusFilter,
        cursor: Option<&str>,
    ) -> Result<Page<ListedCliToken>, Error> {
        let query = [("status", Some(status.as_str())), ("cursor", cursor)];
        self.call(&endpoints::LIST_CLI_TOKENS, &[]).bearer(token).query(&query).send().await
    }

    /// Revokes a CLI token.
    pub async fn revoke_cli_token(&self, token: &AccessToken, id: CliTokenId) -> Result<(), Error> {
        self.call(&endpoints::REVOKE_CLI_TOKEN, &[&id.to_string()]).bearer(token).send().await
    }

    /// Replaces a CLI token by a new one with the same properties.
    pub async fn rotate_cli_token(
        &self,
        token: &AccessToken,
        id: CliTokenId,
        wanted: &RotateCliToken,
    ) -> Result<CreatedCliToken, Error> {
        self.call_with(&endpoints::ROTATE_CLI_TOKEN, &[&id.to_string()], wanted).bearer(token).send().await
    }

    /// Creates the tokens of the first-party MCP client.
    pub async fn create_mcp_tokens(&self, token: &AccessToken, wanted: &CreateMcpTokens) -> Result<McpTokens, Error> {
        self.call_with(&endpoints::CREATE_MCP_TOKENS, &[], wanted).bearer(token).send().await
    }

    /// Exchanges an MCP refresh token for new MCP tokens. `token` is the access token of the pair, or one of the same user.
    pub async fn refresh_mcp_tokens(
        &self,
        token: &AccessToken,
        refresh: &RefreshMcpTokens,
    ) -> Result<McpTokens, Error> {
        self.call_with(&endpoints::REFRESH_MCP_TOKENS, &[], refresh).bearer(token).repeatable().send().await
    }

    /// Reports leaked tokens of any owner, which are revoked.
    pub async fn report_leaks(&self, leaks: &TokenLeaks) -> Result<ReportReceived, Error> {
        self.call_with(&endpoints::TOKEN_LEAKS, &[], leaks).send().await
    }
}
