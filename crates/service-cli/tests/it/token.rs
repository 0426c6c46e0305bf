//! Tests of `service token`.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use service_api::{ids::UserId, workspaces::Role};
use service_testkit::server::TestServer;

use crate::{
    machine::{EMAIL, Machine, run},
    pty::Pty,
    whoami::create_token,
};

/// Signs in, and creates a workspace called Acme. Returns its ID.
pub(crate) async fn sign_in_with_workspace(server: &TestServer, machine: &Machine) -> Result<String> {
    machine.log_in(server).await?;
    let ana: UserId = machine.sign_in()?["user"]["id"].as_str().context("no user")?.parse()?;
    Ok(server.make_workspace("Acme", &[(ana, Role::Owner)]).await?.to_string())
}

#[test]
fn token_create_prints_only_the_token_on_standard_output() -> Result<()> {
    run(async |server, machine| {
        let acme = sign_in_with_workspace(server, machine).await?;
        let expected = "\
E| ok: Created token <clit> for Acme (<wsp>).
E|   Scopes: read. Works only there. Expires on <date>. Shown only once.
E|   Set SERVICE_TOKEN to it, and SERVICE_API_URL to <server>
O| <token>
exit 0";
        assert_eq!(machine.show(&["token", "create", "--workspace-id", &acme]).await?, expected);
        let env = machine.show(&["token", "create", "--workspace-id", &acme, "--format", "env", "--quiet"]).await?;
        assert_eq!(env, "O| SERVICE_API_URL=<server>\nO| SERVICE_TOKEN=<token>\nexit 0");
        let ran = machine.run(&["token", "create", "--personal", "--name", "CI", "--scope", "read", "--json"]).await?;
        let object: Value = serde_json::from_str(&ran.stdout)?;
        assert_eq!((object["workspace"].clone(), object["name"].clone()), (Value::Null, json!("CI")));
        assert_eq!(object["scopes"], json!(["read"]));
        assert!(object["token"].as_str().is_some_and(|token| token.starts_with("svc_cli_")));
        assert!(object["expiresAt"].is_string() && object["createdAt"].is_string() && object["id"].is_string());
        assert_eq!(ran.stderr, "");
        Ok(())
    })
}

#[test]
fn token_create_needs_a_workspace() -> Result<()> {
    run(async |server, machine| {
        sign_in_with_workspace(server, machine).await?;
        let expected = "E| error: A workspace is required.\nE| next: Use --workspace-id <id> or --personal\nexit 2";
        assert_eq!(machine.show(&["token", "create"]).await?, expected);
        let expected = "E| error: Workspace wsp_nope not found, or you don't have access.\nE| next: service workspace list\nexit 6";
        assert_eq!(machine.show(&["token", "create", "--workspace-id", "wsp_nope"]).await?, expected);
        // On a terminal, the command asks.
        let mut pty = Pty::start(machine, "token create > token.txt", &[])?;
        pty.expect("2. Acme (wsp_").await?;
        pty.expect("Workspace for the token (number): ").await?;
        pty.line("2").await?;
        pty.expect("✓").await?;
        assert_eq!(pty.end().await?.1, Some(0));
        let token = std::fs::read_to_string(machine.home.path().join("token.txt"))?;
        machine.leaks.register("CLI token", token.trim());
        assert!(token.starts_with("svc_cli_") && token.lines().count() == 1);
        Ok(())
    })
}

#[test]
fn a_token_that_is_not_allowed_is_not_told_to_sign_in() -> Result<()> {
    run(async |server, machine| {
        let (token, _) = create_token(server, EMAIL, &json!({ "scopes": ["read"] })).await?;
        let ran = machine.run_with(&["token", "create", "--personal", "--json"], &[("SERVICE_TOKEN", &token)]).await?;
        let object: Value = serde_json::from_str(&ran.stderr)?;
        assert_eq!(ran.code, Some(5));
        assert_eq!(object["error"]["source"], "SERVICE_TOKEN");
        assert_eq!(object["error"]["status"], 403);
        assert!(object["error"]["requestId"].is_string());
        assert_eq!(ran.stdout, "");
        let human = machine.show_with(&["token", "list"], &[("SERVICE_TOKEN", &token)]).await?;
        let expected = "\
E| error: A CLI token can't do this. Use your own session.
E| next: unset SERVICE_TOKEN
exit 5";
        assert_eq!(human, expected);
        Ok(())
    })
}

#[test]
fn tokens_are_listed_for_people_and_for_scripts() -> Result<()> {
    run(async |server, machine| {
        let expected = "E| No tokens. Create one with: service token create\nexit 0";
        let acme = sign_in_with_workspace(server, machine).await?;
        assert_eq!(machine.show(&["token", "list"]).await?, expected);
        assert_eq!(machine.run(&["token", "list", "--json"]).await?.stdout, "{\"tokens\":[]}\n");
        let created = machine.run(&["token", "create", "--workspace-id", &acme, "--name", "CI"]).await?;
        machine.leaks.register("CLI token", created.stdout.trim());
        let expected = "O| <clit>\tCI\t<wsp>\t2027-01-15T08:00:00.000Z\t\t\nexit 0";
        assert_eq!(machine.show(&["token", "list"]).await?, expected);
        let object: Value = serde_json::from_str(&machine.run(&["token", "list", "--json"]).await?.stdout)?;
        assert_eq!(object["tokens"][0]["workspace"], json!({ "id": acme, "name": "Acme" }));
        assert_eq!(object["tokens"][0]["lastUsedAt"], Value::Null);
        assert_eq!(object["tokens"][0]["current"], false);
        let ids = machine.run(&["token", "list", "--jq", ".tokens[].id"]).await?;
        assert_eq!(machine.redact(&ids.stdout), "<clit>\n");
        let pty = Pty::start(machine, "token list", &[])?;
        let (screen, code) = pty.end().await?;
        let expected = "NAME  SCOPES  EXPIRES     WORKSPACE  LAST USED  ID\n";
        assert!(screen.starts_with(expected), "{screen}");
        assert_eq!(code, Some(0));
        machine.leaks.assert_clean("the list", screen.as_bytes());
        Ok(())
    })
}

#[test]
fn tokens_are_revoked_by_their_ids() -> Result<()> {
    run(async |server, machine| {
        sign_in_with_workspace(server, machine).await?;
        let create = async || -> Result<String> {
            let ran = machine.run(&["token", "create", "--personal", "--json"]).await?;
            let object: Value = serde_json::from_str(&ran.stdout)?;
            machine.leaks.register("CLI token", object["token"].as_str().context("no token")?);
            Ok(object["id"].as_str().context("no id")?.to_owned())
        };
        let (first, second, third) = (create().await?, create().await?, create().await?);
        let expected = "E| error: Use --yes to revoke without a prompt.\nexit 2";
        assert_eq!(machine.show(&["token", "revoke", &first]).await?, expected);
        let expected = "E| ok: Revoked <clit>. It no longer works.\nexit 0";
        assert_eq!(machine.show(&["token", "revoke", &first, "--yes"]).await?, expected);
        let ran = machine.run(&["token", "revoke", &second, "clit_nope", "--yes", "--json"]).await?;
        let object: Value = serde_json::from_str(&ran.stdout)?;
        assert_eq!(object["revoked"], json!([{ "id": second }]));
        assert_eq!(object["failed"], json!([{ "id": "clit_nope", "code": "not_found" }]));
        assert_eq!((ran.stderr.as_str(), ran.code), ("", Some(1)));
        let expected = "E| error: Token clit_nope not found.\nE| next: service token list\nexit 6";
        assert_eq!(machine.show(&["token", "revoke", "clit_nope", "--yes"]).await?, expected);

        let mut pty = Pty::start(machine, &format!("token revoke {third}"), &[])?;
        pty.expect("(Personal, created 2027-01-15, never used)? [y/N] ").await?;
        pty.line("n").await?;
        assert_eq!(pty.end().await?.1, Some(2));
        let mut pty = Pty::start(machine, &format!("token revoke {third}"), &[])?;
        pty.expect("[y/N] ").await?;
        pty.line("y").await?;
        assert_eq!(pty.end().await?.1, Some(0));
        let (screen, code) = Pty::start(machine, &format!("token revoke {third}"), &[])?.end().await?;
        assert_eq!((machine.redact(&screen).trim(), code), ("<clit> is already revoked.", Some(0)));
        Ok(())
    })
}

#[test]
fn a_token_instead_of_an_id_is_rejected_and_not_repeated() -> Result<()> {
    run(async |server, machine| {
        let (token, _) = create_token(server, EMAIL, &json!({})).await?;
        let ran = machine.run(&["token", "revoke", &token]).await?;
        assert_eq!(ran.code, Some(2));
        assert!(ran.stderr.starts_with("error: That's a token, not a token ID."), "{}", ran.stderr);
        assert!(!ran.stderr.contains(&token));
        Ok(())
    })
}
