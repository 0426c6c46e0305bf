//! The arguments of `service mcp`.

use clap::{Args, Subcommand, ValueEnum};

#[derive(Subcommand)]
pub(crate) enum McpCommand {
    /// Print the configuration for an MCP client
    Config(McpConfigArgs),
    /// Create the MCP tokens that `service mcp serve` uses
    Login(McpLoginArgs),
    /// Revoke the MCP tokens and remove them from this computer
    Logout,
    /// Show the MCP tokens on this computer, without their secrets
    Status,
    /// Connect a client that only supports stdio (started by the client)
    Serve,
}

#[derive(Args)]
pub(crate) struct McpConfigArgs {
    /// MCP client to configure
    pub(crate) client: McpClientArg,
    /// Connect through `service mcp serve` instead of HTTP
    #[arg(long)]
    pub(crate) stdio: bool,
    /// Name of the server in the client
    #[arg(long, default_value = "service", value_parser = parse_server_name)]
    pub(crate) name: String,
}

/// An MCP client, as an argument names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpClientArg {
    /// Claude Code
    #[value(alias = "claude")]
    ClaudeCode,
    /// Claude Desktop
    ClaudeDesktop,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    #[value(name = "vscode", aliases = ["vs-code", "code", "copilot"])]
    VsCode,
    /// Codex
    Codex,
    /// Gemini CLI
    #[value(alias = "gemini")]
    GeminiCli,
    /// Windsurf
    Windsurf,
    /// Zed
    Zed,
    /// opencode
    #[value(name = "opencode")]
    OpenCode,
    /// Any other client
    Other,
}

/// Accepts names that need no quotes in any configuration file.
fn parse_server_name(text: &str) -> Result<String, String> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if is_plain && !text.is_empty() && !text.starts_with('-') {
        return Ok(text.to_owned());
    }
    Err("use letters, digits, - and _".to_owned())
}

#[derive(Args, Default)]
pub(crate) struct McpLoginArgs {
    /// Create them for your personal space
    #[arg(long, conflicts_with = "workspace_id")]
    pub(crate) personal: bool,
    /// Scope to grant: read, write, or one resource such as packs:write (repeatable) [default: the scopes of the tokens
    /// that they replace, or read]
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,
}
