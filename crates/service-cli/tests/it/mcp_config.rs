//! Tests of `service mcp config`.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::{
    machine::{Machine, binary, run},
    pty::Pty,
};

const CLIENTS: [&str; 10] = [
    "claude-code",
    "claude-desktop",
    "cursor",
    "vscode",
    "codex",
    "gemini-cli",
    "windsurf",
    "zed",
    "opencode",
    "other",
];

/// The standard output of the command, without what differs between machines.
async fn snippet(machine: &Machine, arguments: &[&str]) -> Result<String> {
    let ran = machine.run(&[&["mcp", "config"], arguments].concat()).await?;
    ensure!(ran.code == Some(0), "{arguments:?}: {}", ran.stderr);
    let text = ran.stdout.replace(&binary().display().to_string(), "<program>");
    Ok(machine.redact(text.trim_end()))
}

#[test]
fn a_snippet_connects_by_http() -> Result<()> {
    run(async |_, machine| {
        let line = "claude mcp add --transport http service <server>/mcp";
        assert_eq!(snippet(machine, &["claude-code"]).await?, line);
        assert_eq!(snippet(machine, &["claude"]).await?, line);
        assert_eq!(snippet(machine, &["codex"]).await?, "[mcp_servers.service]\nurl = \"<server>/mcp\"");
        for (client, expected) in [
            ("cursor", json!({ "mcpServers": { "service": { "url": "<server>/mcp" } } })),
            ("vscode", json!({ "servers": { "service": { "type": "http", "url": "<server>/mcp" } } })),
            ("gemini", json!({ "mcpServers": { "service": { "httpUrl": "<server>/mcp" } } })),
            ("windsurf", json!({ "mcpServers": { "service": { "serverUrl": "<server>/mcp" } } })),
            ("zed", json!({ "context_servers": { "service": { "url": "<server>/mcp" } } })),
            ("opencode", json!({ "mcp": { "service": { "type": "remote", "url": "<server>/mcp" } } })),
        ] {
            assert_eq!(serde_json::from_str::<Value>(&snippet(machine, &[client]).await?)?, expected, "{client}");
        }
        let named = snippet(machine, &["cursor", "--name", "acme"]).await?;
        ensure!(named.contains("\"acme\""), "{named}");
        assert_eq!(machine.run(&["mcp", "config", "cursor", "--name", "a]b"]).await?.code, Some(2));
        assert_eq!(machine.run(&["mcp", "config", "netscape"]).await?.code, Some(2));
        Ok(())
    })
}

#[test]
fn a_snippet_starts_the_command_with_its_settings() -> Result<()> {
    run(async |_, machine| {
        let environment = json!({ "SERVICE_API_URL": "<server>", "SERVICE_CONFIG_DIR": "<config>" });
        let expected = json!({ "command": "<program>", "args": ["mcp", "serve"], "env": environment });
        let text = snippet(machine, &["claude-desktop"]).await?;
        assert_eq!(serde_json::from_str::<Value>(&text)?["mcpServers"]["service"], expected);
        assert_eq!(
            snippet(machine, &["claude", "--stdio", "--profile", "work"]).await?,
            "claude mcp add --env SERVICE_API_URL=<server> --env SERVICE_PROFILE=work --env SERVICE_CONFIG_DIR=<config> \
             --transport stdio service -- <program> mcp serve"
        );
        Ok(())
    })
}

#[test]
fn no_snippet_has_a_secret_and_its_json_is_stable() -> Result<()> {
    run(async |server, machine| {
        machine.log_in_for_mcp(&server.mailbox, "read").await?;
        let program = binary().display().to_string();
        for client in CLIENTS {
            for stdio in [&[][..], &["--stdio"]] {
                let ran = machine.run(&[&["mcp", "config", client, "--json"], stdio].concat()).await?;
                machine.leaks.assert_clean(client, ran.stdout.as_bytes());
                ensure!(!ran.stdout.contains("svc_") && !ran.stdout.contains("eyJ"), "{client}: {}", ran.stdout);
                let object: Value = serde_json::from_str(&ran.stdout)?;
                let members: Vec<_> = object.as_object().context("no object")?.keys().cloned().collect();
                assert_eq!(members, ["client", "file", "format", "name", "next", "snippet", "transport", "url"]);
                let is_stdio = !stdio.is_empty() || client == "claude-desktop";
                assert_eq!(object["transport"], if is_stdio { "stdio" } else { "http" }, "{client}");
                let text = object["snippet"].as_str().context("no snippet")?;
                if object["format"] == "json" {
                    serde_json::from_str::<Value>(text).with_context(|| client)?;
                }
                assert_eq!((&object["client"], text.contains(&program)), (&json!(client), is_stdio));
            }
        }
        Ok(())
    })
}

#[test]
fn tokens_are_offered_for_stdio_on_a_terminal() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let ran = machine.run(&["mcp", "config", "claude-desktop"]).await?;
        ensure!(ran.stderr.contains("Create them with: service mcp login"), "{}", ran.stderr);
        let offer = "There are no MCP tokens on this computer yet. Create them now? [Y/n] ";
        let mut pty = Pty::start(machine, "mcp config claude-desktop", &[])?;
        pty.expect(offer).await?;
        pty.line("n").await?;
        pty.expect("Create them later with: service mcp login").await?;
        assert_eq!(pty.end().await?.1, Some(0));
        let mut pty = Pty::start(machine, "mcp config claude-desktop --workspace-id personal", &[])?;
        pty.expect(offer).await?;
        pty.line("").await?;
        pty.expect("Created MCP tokens for your personal space.").await?;
        assert_eq!(pty.end().await?.1, Some(0));
        machine.register_secrets();
        // By HTTP the client signs in itself; with tokens there is nothing to offer.
        for arguments in ["mcp config cursor", "mcp config cursor --stdio"] {
            let (screen, code) = Pty::start(machine, arguments, &[])?.end().await?;
            ensure!(code == Some(0) && !screen.contains("[Y/n]"), "{screen}");
        }
        Ok(())
    })
}
