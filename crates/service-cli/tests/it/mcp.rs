//! Tests of `service mcp login`, `logout` and `status`.

use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use service_testkit::server::TestServer;

use crate::{
    machine::{EMAIL, run},
    pty::Pty,
    token::sign_in_with_workspace,
};

/// Refreshes MCP tokens as a client does that has nothing else. Returns the status and the error.
async fn refresh(server: &TestServer, record: &Value, refresh_token: &str) -> Result<(u16, Value)> {
    let request = server.http.request(reqwest::Method::POST, "/v1/mcp/tokens/refresh");
    let request = request.bearer_auth(record["accessToken"].as_str().context("no access token")?);
    let response = server.http.send(request.json(&json!({ "refresh_token": refresh_token }))).await?;
    Ok((response.status.as_u16(), response.body["details"]["reason"].clone()))
}

#[test]
fn mcp_tokens_are_created_and_stored_beside_the_session() -> Result<()> {
    run(async |server, machine| {
        let acme = sign_in_with_workspace(server, machine).await?;
        assert_eq!(
            machine.show(&["mcp", "status"]).await?,
            "E| error: No MCP tokens on this computer.\nE| next: service mcp login\nexit 4"
        );
        assert_eq!(
            machine.show(&["mcp", "login"]).await?,
            "E| error: A workspace is required.\nE| next: Use --workspace-id <id> or --personal\nexit 2"
        );
        let expected = "\
E| ok: Created MCP tokens for Acme (<wsp>).
E|   Scopes: read. Stored in: <config>/credentials.json
E|   `service mcp serve` uses them. To configure a client: service mcp config <client> --stdio
exit 0";
        assert_eq!(machine.show(&["mcp", "login", "--workspace-id", &acme]).await?, expected);
        let (record, sign_in) = (machine.mcp_tokens()?, machine.sign_in()?);
        assert_eq!((&record["store"], &record["user"]), (&sign_in["store"], &sign_in["user"]));
        assert_eq!((&record["scopes"], &record["workspace"]["id"]), (&json!(["read"]), &json!(acme)));
        ensure!(machine.mcp_refresh_token()?.starts_with("svc_mrt_"));
        ensure!(!std::fs::read_to_string(machine.credentials_path())?.contains("svc_mrt_"));
        for file in std::fs::read_dir(machine.config_dir().join("refresh-tokens"))? {
            assert_eq!(file?.metadata()?.permissions().mode() & 0o777, 0o600);
        }
        let expected = "\
O| ana@acme.test
O| Workspace    Acme (<wsp>)
O| Scopes       read
O| Stored in    <config>/credentials.json
O| Server       <server>
exit 0";
        assert_eq!(machine.show(&["mcp", "status"]).await?, expected);
        Ok(())
    })
}

#[test]
fn new_mcp_tokens_replace_the_previous_ones_and_keep_their_scopes() -> Result<()> {
    run(async |server, machine| {
        machine.log_in_for_mcp(&server.mailbox, "read packs:write").await?;
        let (old, old_token) = (machine.mcp_tokens()?, machine.mcp_refresh_token()?);
        let ran = machine.run(&["mcp", "login", "--personal", "--json"]).await?;
        let object: Value = serde_json::from_str(&ran.stdout)?;
        assert_eq!(
            (&object["scopes"], &object["replaced"]),
            (&json!(["read", "packs:write"]), &json!(true)),
            "{object}"
        );
        assert_ne!(machine.mcp_refresh_token()?, old_token);
        assert_eq!(refresh(server, &old, &old_token).await?.0, 401, "the previous tokens still work");
        assert_eq!(refresh(server, &machine.mcp_tokens()?, &machine.mcp_refresh_token()?).await?.0, 200);
        // The session and the tokens have a file each, and what was replaced has none.
        assert_eq!(std::fs::read_dir(machine.config_dir().join("refresh-tokens"))?.count(), 2);
        let ran = machine.run(&["mcp", "login", "--personal", "--scope", "everything"]).await?;
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        Ok(())
    })
}

#[test]
fn creating_mcp_tokens_needs_a_recent_sign_in() -> Result<()> {
    run(async |server, machine| {
        let login = ["mcp", "login", "--personal"];
        assert_eq!(machine.run(&login).await?.code, Some(4));
        machine.log_in(server).await?;
        server.advance(901);
        assert_eq!(
            machine.show(&login).await?,
            "E| error: This needs a sign-in from the last 15 minutes.\nE| next: service login --force\nexit 4"
        );
        let mut pty = Pty::start(machine, "mcp login --personal", &[])?;
        pty.expect("Sign in again as ana@acme.test to continue.").await?;
        pty.expect("Code: ").await?;
        let code = server.mailbox.next_mail_to(EMAIL).await?.code().context("the mail has no code")?;
        machine.leaks.register("otp code", &code);
        pty.line(&code).await?;
        pty.expect("Created MCP tokens for your personal space.").await?;
        assert_eq!(pty.end().await?.1, Some(0));
        machine.register_secrets();
        assert_eq!(machine.mcp_tokens()?["scopes"], json!(["read"]));
        Ok(())
    })
}

#[test]
fn mcp_logout_revokes_the_tokens_and_keeps_the_session() -> Result<()> {
    run(async |server, machine| {
        machine.log_in_for_mcp(&server.mailbox, "read").await?;
        let (record, token) = (machine.mcp_tokens()?, machine.mcp_refresh_token()?);
        let expected = "E| ok: Revoked the MCP tokens and removed them from this computer.\nexit 0";
        assert_eq!(machine.show(&["mcp", "logout"]).await?, expected);
        assert_eq!(refresh(server, &record, &token).await?, (401, "revoked_by_user".into()));
        ensure!(machine.mcp_tokens()?.is_null());
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(0));
        assert_eq!(
            machine.show(&["mcp", "logout"]).await?,
            "E| There are no MCP tokens on this computer. Nothing to do.\nexit 0"
        );
        Ok(())
    })
}

#[test]
fn logout_leaves_no_mcp_tokens_behind() -> Result<()> {
    run(async |server, machine| {
        for command in [&["logout", "--json"][..], &["logout", "--all", "--json"]] {
            machine.log_in_for_mcp(&server.mailbox, "read").await?;
            let (record, token) = (machine.mcp_tokens()?, machine.mcp_refresh_token()?);
            let object: Value = serde_json::from_str(&machine.run(command).await?.stdout)?;
            assert_eq!(
                (&object["signedOut"], &object["mcpTokens"][0]["revokedOnServer"]),
                (&json!(true), &json!(true))
            );
            assert_eq!(refresh(server, &record, &token).await?, (401, "revoked_by_user".into()), "{command:?}");
            assert_eq!(std::fs::read_dir(machine.config_dir().join("refresh-tokens"))?.count(), 0);
            server.advance(61);
        }
        Ok(())
    })
}

#[test]
fn mcp_tokens_are_removed_also_without_the_server() -> Result<()> {
    run(async |server, machine| {
        machine.log_in_for_mcp(&server.mailbox, "read").await?;
        let elsewhere = "http://127.0.0.1:9";
        let credentials = std::fs::read_to_string(machine.credentials_path())?.replace(&machine.url, elsewhere);
        std::fs::write(machine.credentials_path(), credentials)?;
        let expected = "\
E| ok: Removed the MCP tokens from this computer.
E| warning: Couldn't revoke the MCP tokens on the server (offline). They expire there after 30 days without use.
exit 0";
        assert_eq!(machine.show_with(&["mcp", "logout"], &[("SERVICE_API_URL", elsewhere)]).await?, expected);
        Ok(())
    })
}

#[test]
fn mcp_tokens_go_only_to_the_server_that_issued_them() -> Result<()> {
    run(async |server, machine| {
        machine.log_in_for_mcp(&server.mailbox, "read").await?;
        let elsewhere = [("SERVICE_API_URL", "http://127.0.0.1:9")];
        assert_eq!(machine.run_with(&["mcp", "status"], &elsewhere).await?.code, Some(4));
        Ok(())
    })
}
