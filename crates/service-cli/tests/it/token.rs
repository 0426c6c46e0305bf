//! `service token`, as it reads.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use service_api::{ids::UserId, workspaces::Role};
use service_testkit::server::TestServer;

use crate::{
    machine::{EMAIL, Machine, run},
    pty::Pty,
    whoami::make_token,
};

/// A sign-in, and a workspace called Acme.
pub(crate) async fn settled(server: &TestServer, machine: &Machine) -> Result<String> {
    machine.log_in(server).await?;
    let ana: UserId = machine.sign_in()?["user"]["id"].as_str().context("nobody")?.parse()?;
    Ok(server.make_workspace("Acme", &[(ana, Role::Owner)]).await?.to_string())
}

#[test]
fn a_token_is_alone_on_standard_output() -> Result<()> {
    run(async |server, machine| {
        let acme = settled(server, machine).await?;
        let expected = "\
E| ok: Created token <clit> for Acme (<wsp>).
E|   It may read, works only there, and ends on <date>. It is shown once.
E|   Put it in SERVICE_TOKEN, and <server> in SERVICE_API_URL.
O| <token>
exit 0";
        assert_eq!(machine.show(&["token", "create", "--workspace-id", &acme]).await?, expected);
        let env = machine.show(&["token", "create", "--workspace-id", &acme, "--format", "env", "--quiet"]).await?;
        assert_eq!(env, "O| SERVICE_TOKEN=<token>\nexit 0");
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
fn a_token_is_made_for_a_space_that_was_named() -> Result<()> {
    run(async |server, machine| {
        settled(server, machine).await?;
        let expected = "E| error: Say which workspace.\nE| next: --workspace-id <id> or --personal\nexit 2";
        assert_eq!(machine.show(&["token", "create"]).await?, expected);
        let expected = "E| error: No workspace wsp_nope that you can use.\nE| next: service workspace list\nexit 6";
        assert_eq!(machine.show(&["token", "create", "--workspace-id", "wsp_nope"]).await?, expected);
        // On a terminal one is asked.
        let mut pty = Pty::start(machine, "token create > token.txt", &[])?;
        pty.expect("2. Acme (wsp_").await?;
        pty.expect("For which workspace? ").await?;
        pty.line("2").await?;
        pty.expect("✓").await?;
        assert_eq!(pty.end().await?.1, Some(0));
        let token = std::fs::read_to_string(machine.home.path().join("token.txt"))?;
        machine.leaks.register("a token for automation", token.trim());
        assert!(token.starts_with("svc_cli_") && token.lines().count() == 1);
        Ok(())
    })
}

#[test]
fn what_a_token_lacks_is_said_without_sending_anybody_to_sign_in() -> Result<()> {
    run(async |server, machine| {
        let (token, _) = make_token(server, EMAIL, &json!({ "scopes": ["read"] })).await?;
        let ran = machine.run_with(&["token", "create", "--personal", "--json"], &[("SERVICE_TOKEN", &token)]).await?;
        let object: Value = serde_json::from_str(&ran.stderr)?;
        assert_eq!(ran.code, Some(5));
        assert_eq!(object["error"]["source"], "SERVICE_TOKEN");
        assert_eq!(object["error"]["status"], 403);
        assert!(object["error"]["requestId"].is_string());
        assert_eq!(ran.stdout, "");
        let human = machine.show_with(&["token", "list"], &[("SERVICE_TOKEN", &token)]).await?;
        let expected = "\
E| error: A token for automation may not do this. Use your own sign-in.
E| next: unset SERVICE_TOKEN
exit 5";
        assert_eq!(human, expected);
        Ok(())
    })
}

#[test]
fn tokens_are_listed_for_people_and_for_programs() -> Result<()> {
    run(async |server, machine| {
        let expected = "E| No tokens yet. Make one: service token create\nexit 0";
        let acme = settled(server, machine).await?;
        assert_eq!(machine.show(&["token", "list"]).await?, expected);
        assert_eq!(machine.run(&["token", "list", "--json"]).await?.stdout, "{\"tokens\":[]}\n");
        let made = machine.run(&["token", "create", "--workspace-id", &acme, "--name", "CI"]).await?;
        machine.leaks.register("a token for automation", made.stdout.trim());
        let expected = "O| <clit>\tCI\t<wsp>\t2027-01-15T08:00:00.000Z\t\t\nexit 0";
        assert_eq!(machine.show(&["token", "list"]).await?, expected);
        let object: Value = serde_json::from_str(&machine.run(&["token", "list", "--json"]).await?.stdout)?;
        assert_eq!(object["tokens"][0]["workspace"], json!({ "id": acme, "name": "Acme" }));
        assert_eq!(object["tokens"][0]["lastUsedAt"], Value::Null);
        assert_eq!(object["tokens"][0]["current"], false);
        let ids = machine.run(&["token", "list", "--jq", ".tokens[].id"]).await?;
        assert_eq!(machine.plain(&ids.stdout), "<clit>\n");
        let pty = Pty::start(machine, "token list", &[])?;
        let (screen, code) = pty.end().await?;
        let expected = "\
ID                                NAME   WORKSPACE                               CREATED      LAST USED
";
        assert!(screen.starts_with(expected), "{screen}");
        assert_eq!(code, Some(0));
        machine.leaks.assert_clean("the list", screen.as_bytes());
        Ok(())
    })
}

#[test]
fn tokens_are_revoked_by_their_ids() -> Result<()> {
    run(async |server, machine| {
        settled(server, machine).await?;
        let make = async || -> Result<String> {
            let ran = machine.run(&["token", "create", "--personal", "--json"]).await?;
            let object: Value = serde_json::from_str(&ran.stdout)?;
            machine.leaks.register("a token for automation", object["token"].as_str().context("no token")?);
            Ok(object["id"].as_str().context("no id")?.to_owned())
        };
        let (first, second, third) = (make().await?, make().await?, make().await?);
        let expected = "E| error: Revoking needs --yes when nobody can be asked.\nexit 2";
        assert_eq!(machine.show(&["token", "revoke", &first]).await?, expected);
        let expected = "E| ok: Revoked <clit>. Anything using it stops working now.\nexit 0";
        assert_eq!(machine.show(&["token", "revoke", &first, "--yes"]).await?, expected);
        let ran = machine.run(&["token", "revoke", &second, "clit_nope", "--yes", "--json"]).await?;
        let object: Value = serde_json::from_str(&ran.stdout)?;
        assert_eq!(object["revoked"], json!([{ "id": second }]));
        assert_eq!(object["failed"], json!([{ "id": "clit_nope", "code": "not_found" }]));
        assert_eq!((ran.stderr.as_str(), ran.code), ("", Some(1)));
        let expected = "E| error: No token clit_nope.\nE| next: service token list\nexit 6";
        assert_eq!(machine.show(&["token", "revoke", "clit_nope", "--yes"]).await?, expected);

        let mut pty = Pty::start(machine, &format!("token revoke {third}"), &[])?;
        pty.expect("(Personal, made 2027-01-15, never used)? [y/N] ").await?;
        pty.line("n").await?;
        assert_eq!(pty.end().await?.1, Some(2));
        let mut pty = Pty::start(machine, &format!("token revoke {third}"), &[])?;
        pty.expect("[y/N] ").await?;
        pty.line("y").await?;
        assert_eq!(pty.end().await?.1, Some(0));
        let (screen, code) = Pty::start(machine, &format!("token revoke {third}"), &[])?.end().await?;
        assert_eq!((machine.plain(&screen).trim(), code), ("<clit> was already revoked.", Some(0)));
        Ok(())
    })
}

#[test]
fn a_pasted_secret_is_not_an_id_and_not_repeated() -> Result<()> {
    run(async |server, machine| {
        let (token, _) = make_token(server, EMAIL, &json!({})).await?;
        let ran = machine.run(&["token", "revoke", &token]).await?;
        assert_eq!(ran.code, Some(2));
        assert!(ran.stderr.starts_with("error: That is a token, not a token's id."), "{}", ran.stderr);
        assert!(!ran.stderr.contains(&token));
        Ok(())
    })
}
