//! The configuration of each MCP client: its file, and how it names a server.

use serde_json::{Value, json};

use crate::mcp_arguments::McpClientArg;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Http,
    Stdio,
}

impl Transport {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Stdio => "stdio",
        }
    }
}

/// What a client connects to.
pub(super) enum Connector {
    /// The MCP endpoint. The client signs in with OAuth.
    Http { url: String },
    /// This command, which the client starts.
    Stdio(StdioServer),
}

pub(super) struct StdioServer {
    pub(super) program: String,
    pub(super) environment: Vec<(&'static str, String)>,
}

const STDIO_ARGUMENTS: [&str; 2] = ["mcp", "serve"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Toml,
    /// A command for a shell.
    Command,
}

impl Format {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Toml => "toml",
            Self::Command => "command",
        }
    }
}

/// The text for the user, and where it belongs.
pub(super) struct Snippet {
    pub(super) format: Format,
    /// The file to add it to. None for a command.
    pub(super) file: Option<&'static str>,
    pub(super) text: String,
    /// What the user does then.
    pub(super) next: String,
}

pub(super) fn build_snippet(client: McpClientArg, name: &str, connector: &Connector) -> Snippet {
    let (format, text) = match client {
        McpClientArg::ClaudeCode => (Format::Command, claude_code_command(name, connector)),
        McpClientArg::Codex => (Format::Toml, codex_table(name, connector)),
        _ => (Format::Json, format!("{:#}", json_config(client, name, connector))),
    };
    Snippet { format, file: config_file(client), text, next: next_step(client, name, connector) }
}

const fn config_file(client: McpClientArg) -> Option<&'static str> {
    match client {
        McpClientArg::ClaudeCode => None,
        McpClientArg::ClaudeDesktop => Some("claude_desktop_config.json (Settings > Developer > Edit Config)"),
        McpClientArg::Cursor => Some("~/.cursor/mcp.json"),
        McpClientArg::VsCode => Some(".vscode/mcp.json"),
        McpClientArg::Codex => Some("~/.codex/config.toml"),
        McpClientArg::GeminiCli => Some("~/.gemini/settings.json"),
        McpClientArg::Windsurf => Some("~/.codeium/windsurf/mcp_config.json"),
        McpClientArg::Zed => Some("~/.config/zed/settings.json"),
        McpClientArg::OpenCode => Some("~/.config/opencode/opencode.json"),
        McpClientArg::Other => Some("the MCP configuration of the client"),
    }
}

/// What the user does after adding the snippet.
fn next_step(client: McpClientArg, name: &str, connector: &Connector) -> String {
    match (client, connector) {
        (McpClientArg::ClaudeCode, Connector::Http { .. }) => "Then run /mcp in Claude Code to sign in.".to_owned(),
        (McpClientArg::Codex, Connector::Http { .. }) => format!("Then sign in with: codex mcp login {name}"),
        (_, Connector::Http { .. }) => "The client opens a browser to sign in when it connects.".to_owned(),
        (McpClientArg::ClaudeDesktop, _) => {
            "Then restart Claude Desktop. To connect without this command, add the URL as a custom connector instead."
                .to_owned()
        }
        (_, Connector::Stdio(_)) => "Then restart the client.".to_owned(),
    }
}

/// The members that the client merges into its file.
fn json_config(client: McpClientArg, name: &str, connector: &Connector) -> Value {
    let servers = match client {
        McpClientArg::VsCode => "servers",
        McpClientArg::Zed => "context_servers",
        McpClientArg::OpenCode => "mcp",
        _ => "mcpServers",
    };
    json!({ servers: { name: json_server(client, connector) } })
}

fn json_server(client: McpClientArg, connector: &Connector) -> Value {
    match (client, connector) {
        (McpClientArg::VsCode | McpClientArg::Other, Connector::Http { url }) => json!({ "type": "http", "url": url }),
        (McpClientArg::OpenCode, Connector::Http { url }) => json!({ "type": "remote", "url": url }),
        (McpClientArg::GeminiCli, Connector::Http { url }) => json!({ "httpUrl": url }),
        (McpClientArg::Windsurf, Connector::Http { url }) => json!({ "serverUrl": url }),
        (_, Connector::Http { url }) => json!({ "url": url }),
        (McpClientArg::OpenCode, Connector::Stdio(server)) => {
            let command: Vec<_> = [server.program.as_str()].into_iter().chain(STDIO_ARGUMENTS).collect();
            json!({ "type": "local", "command": command, "environment": environment_object(server) })
        }
        (McpClientArg::VsCode, Connector::Stdio(server)) => {
            let environment = environment_object(server);
            json!({ "type": "stdio", "command": server.program, "args": STDIO_ARGUMENTS, "env": environment })
        }
        (_, Connector::Stdio(server)) => {
            json!({ "command": server.program, "args": STDIO_ARGUMENTS, "env": environment_object(server) })
        }
    }
}

fn environment_object(server: &StdioServer) -> Value {
    server.environment.iter().map(|(name, value)| ((*name).to_owned(), Value::from(value.as_str()))).collect()
}

fn codex_table(name: &str, connector: &Connector) -> String {
    // A JSON string is also a TOML string.
    let quote = |text: &str| Value::from(text).to_string();
    let mut lines = vec![format!("[mcp_servers.{name}]")];
    match connector {
        Connector::Http { url } => lines.push(format!("url = {}", quote(url))),
        Connector::Stdio(server) => {
            lines.push(format!("command = {}", quote(&server.program)));
            lines.push(format!("args = [{}]", STDIO_ARGUMENTS.map(quote).join(", ")));
            let pairs = server.environment.iter().map(|(name, value)| format!("{name} = {}", quote(value)));
            lines.push(format!("env = {{ {} }}", pairs.collect::<Vec<_>>().join(", ")));
        }
    }
    lines.join("\n")
}

fn claude_code_command(name: &str, connector: &Connector) -> String {
    match connector {
        Connector::Http { url } => format!("claude mcp add --transport http {name} {}", quote_for_shell(url)),
        Connector::Stdio(server) => {
            let pairs = server.environment.iter().map(|(name, value)| quote_for_shell(&format!("{name}={value}")));
            let environment = pairs.map(|pair| format!("--env {pair}")).collect::<Vec<_>>().join(" ");
            // --env takes several values, so another option has to follow it before the name.
            let (program, arguments) = (quote_for_shell(&server.program), STDIO_ARGUMENTS.join(" "));
            format!("claude mcp add {environment} --transport stdio {name} -- {program} {arguments}")
        }
    }
}

/// Quotes a word for a POSIX shell, if it needs it.
fn quote_for_shell(word: &str) -> String {
    let is_plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_spaces_and_quotes_is_quoted_everywhere() {
        let program = "C:\\My \"Tools\"\\it's/service".to_owned();
        let connector =
            Connector::Stdio(StdioServer { program, environment: vec![("SERVICE_API_URL", "http://[::1]:9".into())] });
        let text = |client| build_snippet(client, "service", &connector).text;
        assert_eq!(
            text(McpClientArg::ClaudeCode),
            "claude mcp add --env 'SERVICE_API_URL=http://[::1]:9' --transport stdio service -- \
             'C:\\My \"Tools\"\\it'\\''s/service' mcp serve"
        );
        assert_eq!(
            text(McpClientArg::Codex),
            "[mcp_servers.service]\ncommand = \"C:\\\\My \\\"Tools\\\"\\\\it's/service\"\nargs = [\"mcp\", \"serve\"]\n\
             env = { SERVICE_API_URL = \"http://[::1]:9\" }"
        );
        let cursor: Value = serde_json::from_str(&text(McpClientArg::Cursor)).unwrap();
        assert_eq!(cursor["mcpServers"]["service"]["command"], "C:\\My \"Tools\"\\it's/service");
    }
}
