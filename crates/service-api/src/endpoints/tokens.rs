//! CLI tokens, MCP tokens, audit events, and reports of leaked tokens.

use super::{
    Access::{McpPair, Owner, Public, RecentSignIn, SignedIn},
    operation::{Header, delete, get, operations, post},
};
use crate::{
    audit_events::AuditEvent,
    cli_tokens::{CreateCliToken, CreatedCliToken, ListedCliToken, RotateCliToken},
    errors::ErrorCode::*,
    leaks::{ReportReceived, TokenLeaks},
    mcp_tokens::{CreateMcpTokens, McpTokens, RefreshMcpTokens},
    page::Page,
    scope::{Action, Resource, Scope},
};

const READ: Scope = Scope::of(Action::Read, Resource::Tokens);
const WRITE: Scope = Scope::of(Action::Write, Resource::Tokens);

operations! {
    /// Create a token (shown once)
    CREATE_CLI_TOKEN(CliTokens, "createCliToken"): CreateCliToken => CreatedCliToken =
        post("/v1/cli/tokens", RecentSignIn(WRITE))
            .query(&["workspaceId"])
            .takes()
            .returns(201)
            .located()
            .fails(&[InvalidScope, NotFound, Conflict, ValidationFailed, RateLimited])
            .headers(&[Header::IdempotencyKey]);

    /// List tokens (newest first)
    LIST_CLI_TOKENS(CliTokens, "listCliTokens"): () => Page<ListedCliToken> =
        get("/v1/cli/tokens", SignedIn(READ)).query(&["status", "limit", "cursor"]).returns(200);

    /// Revoke a token (idempotent; a token can revoke itself without any scope)
    REVOKE_CLI_TOKEN(CliTokens, "revokeCliToken"): () => () =
        delete("/v1/cli/tokens/{tokenId}", SignedIn(WRITE)).fails(&[NotFound]);

    /// Rotate a token
    ROTATE_CLI_TOKEN(CliTokens, "rotateCliToken"): RotateCliToken => CreatedCliToken =
        post("/v1/cli/tokens/{tokenId}/rotate", RecentSignIn(WRITE))
            .takes()
            .returns(201)
            .located()
            .fails(&[InvalidScope, NotFound, Conflict, ValidationFailed, RateLimited])
            .headers(&[Header::IdempotencyKey]);

    /// Create MCP tokens
    CREATE_MCP_TOKENS(McpTokens, "createMcpTokens"): CreateMcpTokens => McpTokens =
        post("/v1/mcp/tokens", RecentSignIn(WRITE))
            .query(&["workspaceId"])
            .takes()
            .returns(201)
            .fails(&[InvalidScope, NotFound, Conflict, ValidationFailed, RateLimited]);

    /// Refresh MCP tokens
    REFRESH_MCP_TOKENS(McpTokens, "refreshMcpTokens"): RefreshMcpTokens => McpTokens =
        post("/v1/mcp/tokens/refresh", McpPair)
            .takes()
            .returns(200)
            .fails(&[InvalidGrant, InvalidScope, InvalidTarget, InvalidClient]);

    /// List audit events (newest first)
    LIST_AUDIT_EVENTS(Audit, "listAuditEvents"): () => Page<AuditEvent> =
        get("/v1/audit-events", Owner(Scope::of(Action::Read, Resource::Audit)))
            .query(&["workspaceId", "event", "userId", "since", "until", "limit", "cursor"])
            .returns(200);

    /// Report leaked tokens
    TOKEN_LEAKS(Leaks, "reportLeaks"): TokenLeaks => ReportReceived =
        post("/v1/token-leaks", Public).takes().returns(202).fails(&[ValidationFailed, RateLimited]);
}
