//! Tests of `service mcp serve`: a client on standard input and output, and the MCP endpoint of a real server.

use std::{process::Stdio, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
    time::timeout,
};

use crate::machine::{Machine, run, run_with};

const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// A client that has started the command.
pub(crate) struct StdioClient {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl StdioClient {
    pub(crate) fn start(machine: &Machine) -> Result<Self> {
        let mut command = tokio::process::Command::from(machine.command());
        command.args(["mcp", "serve"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take().context("no output")?);
        Ok(Self { child, input, output: BufReader::new(output).lines() })
    }

    pub(crate) async fn write(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().context("the input is closed")?;
        Ok(input.write_all(format!("{line}\n").as_bytes()).await?)
    }

    /// Reads the next line, which has to be a JSON-RPC message.
    pub(crate) async fn read(&mut self) -> Result<Value> {
        let line = timeout(READ_TIMEOUT, self.output.next_line()).await??.context("the command has ended")?;
        let message: Value = serde_json::from_str(&line).with_context(|| line.clone())?;
        ensure!(message["jsonrpc"] == "2.0", "{line}");
        Ok(message)
    }

    /// Sends a request of the newest revision, and reads the answer to it.
    pub(crate) async fn request(&mut self, id: u32, method: &str, mut params: Value) -> Result<Value> {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()).await?;
        let answer = self.read().await?;
        ensure!(answer["id"] == id, "another request was answered: {answer}");
        Ok(answer)
    }

    pub(crate) async fn call(&mut self, id: u32, tool: &str, arguments: Value) -> Result<Value> {
        self.request(id, "tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// Closes the input. Returns the rest of the output, standard error and the exit code.
    pub(crate) async fn end(mut self) -> Result<(String, String, Option<i32>)> {
        drop(self.input.take());
        let (mut rest, mut errors) = (String::new(), String::new());
        while let Some(line) = timeout(READ_TIMEOUT, self.output.next_line()).await?? {
            rest.push_str(&line);
        }
        self.child.stderr.take().context("no standard error")?.read_to_string(&mut errors).await?;
        Ok((rest, errors, timeout(READ_TIMEOUT, self.child.wait()).await??.code()))
    }
}

#[test]
fn a_stdio_client_of_each_revision_calls_a_tool() -> Result<()> {
    run(async |server, machine| {
        machine.log_in_for_mcp(&server.mailbox, "read").await?;
        for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
            let mut client = StdioClient::start(machine)?;
            let params = json!({ "protocolVersion": revision, "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" } });
            let first = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
            client.write(&first.to_string()).await?;
            let answer = client.read().await?;
            assert_eq!(
                (&answer["id"], &answer["result"]["protocolVersion"]),
                (&json!(0), &json!(revision)),
                "{answer}"
            );
            client.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await?;
            client.write(r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"whoami"}}"#).await?;
            let answer = client.read().await?;
            assert_eq!(answer["id"], "a");
            assert_eq!(answer["result"]["structuredContent"]["user"]["email"], "ana@acme.test", "{answer}");
            assert_eq!(client.end().await?, (String::new(), String::new(), Some(0)), "{revision}");
        }
        let mut client = StdioClient::start(machine)?;
        let found = client.request(1, "server/discover", json!({})).await?;
        ensure!(found["result"].is_object(), "{found}");
        let answer = client.call(2, "whoami", json!({})).await?;
        assert_eq!(answer["result"]["structuredContent"]["user"]["email"], "ana@acme.test", "{answer}");
        // An error of the protocol is passed on as it is.
        let answer = client.request(3, "nothing/such", json!({})).await?;
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
        assert_eq!(client.end().await?.2, Some(0));
        Ok(())
    })
}

#[test]
fn requests_run_at_once_and_each_is_answered() -> Result<()> {
    run(async |server, machine| {
        machine.log_in_for_mcp(&server.mailbox, "read").await?;
        let mut client = StdioClient::start(machine)?;
        for id in 0..100 {
            client.write(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }).to_string()).await?;
        }
        let mut answered = Vec::new();
        for _ in 0..100 {
            let answer = client.read().await?;
            ensure!(answer["result"].is_object(), "{answer}");
            answered.extend(answer["id"].as_u64());
        }
        answered.sort_unstable();
        assert_eq!(answered, (0..100).collect::<Vec<_>>());
        assert_eq!(client.end().await?.2, Some(0));
        Ok(())
    })
}

#[test]
fn without_tokens_every_request_is_answered_with_the_command_to_run() -> Result<()> {
    run(async |_, machine| {
        let mut client = StdioClient::start(machine)?;
        client.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await?;
        for id in 1..4 {
            let answer = client.call(id, "whoami", json!({})).await?;
            let message = "No MCP tokens on this computer. Next: service mcp login";
            assert_eq!((&answer["error"]["code"], &answer["error"]["message"]), (&json!(-32001), &json!(message)));
            assert_eq!(answer["error"]["data"]["code"], "not_signed_in");
        }
        let (rest, errors, code) = client.end().await?;
        assert_eq!((rest.as_str(), code), ("", Some(0)));
        ensure!(errors.contains("No MCP tokens on this computer."), "{errors}");
        Ok(())
    })
}

#[test]
fn what_is_no_message_is_answered_with_an_error() -> Result<()> {
    run(async |server, machine| {
        machine.log_in_for_mcp(&server.mailbox, "read").await?;
        let mut client = StdioClient::start(machine)?;
        for (line, code) in [("{", -32700), ("[]", -32600), ("{\"id\":null}", -32600)] {
            client.write(line).await?;
            let answer = client.read().await?;
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(code)), "{line}");
        }
        let large = "x".repeat(5 * 1024 * 1024);
        client
            .write(
                &json!({ "method": "ping", "params": { "x": large }, "jsonrpc": "2.0", "z": 1, "id": 7 }).to_string(),
            )
            .await?;
        let answer = client.read().await?;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32600)), "{answer}");
        ensure!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("4 MiB")), "{answer}");
        // Large for the server, and not for the command.
        let large = "x".repeat(3 * 1024 * 1024);
        let answer = client.request(8, "ping", json!({ "x": large })).await?;
        ensure!(answer["error"]["message"].is_string(), "{answer}");
        let answer = client.request(9, "tools/call", json!({ "name": "whoami", "arguments": {} })).await?;
        ensure!(answer["result"].is_object(), "{answer}");
        Ok(())
    })
}

#[test]
fn a_missing_scope_is_named_with_the_command_that_adds_it() -> Result<()> {
    run(async |server, machine| {
        machine.log_in_for_mcp(&server.mailbox, "read").await?;
        let mut client = StdioClient::start(machine)?;
        let answer = client.call(1, "create_project", json!({ "name": "A" })).await?;
        let message = "This needs the projects:write scope. Your MCP tokens have: read. \
                       Next: service mcp login --scope \"read projects:write\"";
        assert_eq!((&answer["error"]["code"], &answer["error"]["message"]), (&json!(-32003), &json!(message)));
        assert_eq!(answer["error"]["data"]["requiredScope"], "projects:write");
        // The running command uses the new tokens.
        let ran = machine.run(&["mcp", "login", "--personal", "--scope", "read projects:write"]).await?;
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        machine.register_secrets();
        let answer = client.call(2, "create_project", json!({ "name": "A" })).await?;
        assert_eq!(answer["result"]["structuredContent"]["name"], "A", "{answer}");
        Ok(())
    })
}

#[test]
fn a_token_that_the_server_rejects_is_refreshed_and_the_request_repeated() -> Result<()> {
    run(async |server, machine| {
        machine.log_in_for_mcp(&server.mailbox, "read").await?;
        let before = machine.mcp_refresh_token()?;
        let mut client = StdioClient::start(machine)?;
        // The server's clock moves; the command still considers the token valid.
        server.advance(3700);
        let answer = client.call(1, "whoami", json!({})).await?;
        ensure!(answer["result"].is_object(), "{answer}");
        machine.register_secrets();
        assert_ne!(machine.mcp_refresh_token()?, before);
        Ok(())
    })
}

#[test]
fn tokens_that_were_revoked_are_forgotten_and_never_sent_again() -> Result<()> {
    run(async |server, machine| {
        machine.log_in_for_mcp(&server.mailbox, "read").await?;
        let sessions: Value = serde_json::from_str(&machine.run(&["session", "list", "--json"]).await?.stdout)?;
        let sessions = sessions["sessions"].as_array().context("no sessions")?;
        let of_mcp =
            sessions.iter().find(|session| session["client"]["id"] == "service-mcp").context("no MCP session")?;
        let id = of_mcp["id"].as_str().context("no ID")?;
        let mut client = StdioClient::start(machine)?;
        ensure!(client.call(1, "whoami", json!({})).await?["result"].is_object());
        assert_eq!(machine.run(&["session", "revoke", id, "--yes"]).await?.code, Some(0));
        let answer = client.call(2, "whoami", json!({})).await?;
        let message = "Your MCP tokens no longer work (signed out elsewhere). Next: service mcp login";
        assert_eq!((&answer["error"]["code"], &answer["error"]["message"]), (&json!(-32001), &json!(message)));
        ensure!(machine.mcp_tokens()?.is_null());
        let answer = client.call(3, "whoami", json!({})).await?;
        assert_eq!(answer["error"]["message"], "No MCP tokens on this computer. Next: service mcp login");
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(0), "the session ended with its MCP tokens");
        Ok(())
    })
}

#[test]
fn too_many_requests_are_answered_with_how_long_to_wait() -> Result<()> {
    run_with(&[("limits.requests_per_user", "4+1")], async |server, machine| {
        machine.log_in_for_mcp(&server.mailbox, "read").await?;
        let mut client = StdioClient::start(machine)?;
        let mut answers = Vec::new();
        for id in 1..=5 {
            answers.push(client.call(id, "whoami", json!({})).await?);
        }
        let last = &answers[4]["error"];
        assert_eq!((&last["code"], &last["data"]["code"]), (&json!(-32000), &json!("rate_limited")), "{last}");
        ensure!(last["data"]["retryAfter"].is_u64(), "{last}");
        ensure!(
            last["message"].as_str().is_some_and(|text| text.starts_with("Too many requests. Try again in")),
            "{last}"
        );
        Ok(())
    })
}

#[test]
fn an_unreachable_server_keeps_the_tokens() -> Result<()> {
    run(async |server, machine| {
        machine.log_in_for_mcp(&server.mailbox, "read").await?;
        machine.expire_mcp_token()?;
        let elsewhere = "http://127.0.0.1:9";
        let before = std::fs::read_to_string(machine.credentials_path())?.replace(&machine.url, elsewhere);
        std::fs::write(machine.credentials_path(), &before)?;
        let other = Machine::new(elsewhere, &machine.leaks)?
            .with("SERVICE_CONFIG_DIR", &machine.config_dir().display().to_string());
        let mut client = StdioClient::start(&other)?;
        let answer = client.call(1, "whoami", json!({})).await?;
        assert_eq!(answer["error"]["data"]["code"], "offline", "{answer}");
        assert_eq!(std::fs::read_to_string(machine.credentials_path())?, before);
        Ok(())
    })
}

#[test]
fn no_secret_is_written_even_when_requests_are_logged() -> Result<()> {
    run(async |server, machine| {
        machine.log_in_for_mcp(&server.mailbox, "read").await?;
        machine.expire_mcp_token()?;
        let logged = Machine::new(&machine.url, &machine.leaks)?
            .with("SERVICE_CONFIG_DIR", &machine.config_dir().display().to_string())
            .with("SERVICE_LOG", "trace")
            .with("SERVICE_TOKEN", "");
        let mut client = StdioClient::start(&logged)?;
        ensure!(client.call(1, "whoami", json!({})).await?["result"].is_object());
        machine.register_secrets();
        let (rest, errors, code) = client.end().await?;
        assert_eq!((rest.as_str(), code), ("", Some(0)));
        ensure!(errors.contains("debug: POST /v1/mcp/tokens/refresh 200 req_"), "{errors}");
        ensure!(errors.contains("debug: POST /mcp 200 req_") && !errors.contains("eyJ"), "{errors}");
        machine.leaks.assert_clean("standard error", errors.as_bytes());
        Ok(())
    })
}
