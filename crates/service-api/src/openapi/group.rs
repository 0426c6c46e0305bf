//! The chapters of the manual, which are the tags of the `OpenAPI` document.

/// A chapter of the manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    SignIn,
    Oauth,
    Discovery,
    Whoami,
    Workspaces,
    Connections,
    Content,
    Sessions,
    Passkeys,
    Account,
    CliTokens,
    McpTokens,
    Mcp,
    Audit,
    Leaks,
}

impl Group {
    pub const ALL: [Self; 15] = [
        Self::SignIn,
        Self::Oauth,
        Self::Discovery,
        Self::Whoami,
        Self::Workspaces,
        Self::Connections,
        Self::Content,
        Self::Sessions,
        Self::Passkeys,
        Self::Account,
        Self::CliTokens,
        Self::McpTokens,
        Self::Mcp,
        Self::Audit,
        Self::Leaks,
    ];

    /// The heading of the chapter.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::SignIn => "Signing in",
            Self::Oauth => "OAuth",
            Self::Discovery => "Discovery",
            Self::Whoami => "Current user",
            Self::Workspaces => "Workspaces",
            Self::Connections => "Single sign-on",
            Self::Content => "Content",
            Self::Sessions => "Sessions",
            Self::Passkeys => "Passkeys",
            Self::Account => "Account data",
            Self::CliTokens => "CLI tokens",
            Self::McpTokens => "MCP tokens",
            Self::Mcp => "MCP",
            Self::Audit => "Audit events",
            Self::Leaks => "Leaked tokens",
        }
    }

    /// The tag in the `OpenAPI` document, which names a part of a generated client.
    #[must_use]
    pub const fn tag(self) -> &'static str {
        match self {
            Self::SignIn => "sign-in",
            Self::Oauth => "oauth",
            Self::Discovery => "discovery",
            Self::Whoami => "whoami",
            Self::Workspaces => "workspaces",
            Self::Connections => "sso",
            Self::Content => "content",
            Self::Sessions => "sessions",
            Self::Passkeys => "passkeys",
            Self::Account => "exports",
            Self::CliTokens => "cli-tokens",
            Self::McpTokens => "mcp-tokens",
            Self::Mcp => "mcp",
            Self::Audit => "audit",
            Self::Leaks => "leaks",
        }
    }

    /// The description of the tag.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::SignIn => "Signing in by email code, and exchanging codes and refresh tokens for tokens.",
            Self::Oauth => "Revoking and introspecting tokens, and registering clients.",
            Self::Discovery => "Metadata, public keys and the description of the API.",
            Self::Whoami => "The user, credential and space of a request.",
            Self::Workspaces => "Workspaces, members and invitations.",
            Self::Connections => "Single sign-on: connections to identity providers, and domains.",
            Self::Content => "Projects, packs, playbooks, cases and records.",
            Self::Sessions => "Sessions of the user, and the access that the user gave to apps.",
            Self::Passkeys => "Passkeys of the user. They are created on the account page only.",
            Self::Account => {
                "The account of the user, everything that is stored about it as a ZIP file, and deleting it."
            }
            Self::CliTokens => "Tokens for scripts and CI.",
            Self::McpTokens => "Tokens of the first-party MCP client. Other MCP clients use OAuth discovery.",
            Self::Mcp => "The endpoint of MCP clients.",
            Self::Audit => "What happened in an account or a workspace.",
            Self::Leaks => "Reports of leaked tokens.",
        }
    }

    /// The text of the chapter, before its endpoints.
    #[must_use]
    pub const fn prose(self) -> &'static str {
        match self {
            Self::SignIn => include_str!("../../manual/sign_in.md"),
            Self::Oauth => include_str!("../../manual/oauth.md"),
            Self::Discovery => include_str!("../../manual/discovery.md"),
            Self::Whoami => include_str!("../../manual/whoami.md"),
            Self::Workspaces => include_str!("../../manual/workspaces.md"),
            Self::Connections => include_str!("../../manual/connections.md"),
            Self::Content => include_str!("../../manual/content.md"),
            Self::Sessions => include_str!("../../manual/sessions.md"),
            Self::Passkeys => include_str!("../../manual/passkeys.md"),
            Self::Account => include_str!("../../manual/account.md"),
            Self::CliTokens => include_str!("../../manual/cli_tokens.md"),
            Self::McpTokens => include_str!("../../manual/mcp_tokens.md"),
            Self::Mcp => include_str!("../../manual/mcp.md"),
            Self::Audit => include_str!("../../manual/audit.md"),
            Self::Leaks => include_str!("../../manual/leaks.md"),
        }
    }
}
