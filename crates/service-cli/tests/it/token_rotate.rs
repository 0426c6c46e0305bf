//! Tests of `service token rotate`.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::{
    machine::{EMAIL, Machine, run},
    project::{error, object},
    pty::Pty,
    token::sign_in_with_workspace,
    whoami::create_token,
};

/// Creates a token for a workspace. Returns its ID and the token.
async fn create(machine: &Machine, workspace: &str) -> Result<(String, String)> {
    let created =
        object(machine, &["token", "create", "--name", "CI", "--expires-in", "7", "--workspace-id", workspace]).await?;
    let text = |key: &str| created[key].as_str().map(str::to_owned).with_context(|| format!("no {key}"));
    machine.leaks.register("CLI token", &text("token")?);
    Ok((text("id")?, text("token")?))
}

async fn works(machine: &Machine, token: &str) -> Result<bool> {
    Ok(machine.run_with(&["whoami"], &[("SERVICE_TOKEN", token)]).await?.code == Some(0))
}

#[test]
fn a_token_is_replaced_by_one_like_it_fh_19() -> Result<()> {
    run(async |server, machine| {
        let acme = sign_in_with_workspace(server, machine).await?;
        let (old_id, old) = create(machine, &acme).await?;
        let expected = "E| error: Use --yes to replace a token at once without a prompt.\nexit 2";
        assert_eq!(machine.show(&["token", "rotate", &old_id]).await?, expected);
        let ran = machine.run(&["token", "rotate", &old_id, "--yes"]).await?;
        let new = ran.stdout.trim().to_owned();
        machine.leaks.register("CLI token", &new);
        let expected = "\
E| ok: Replaced <clit> with token <clit> for Acme (<wsp>). The old one no longer works.
E|   Scopes: read. Works only there. Expires on <date>. Shown only once.
O| <token>
exit 0";
        assert_eq!(machine.transcript(&ran), expected);
        assert!(works(machine, &new).await?, "the new token does not work");
        assert!(!works(machine, &old).await?, "the old token still works");
        // A replaced token cannot be replaced again.
        let (failure, code) = error(machine, &["token", "rotate", &old_id, "--yes"]).await?;
        assert_eq!((failure["code"].as_str(), code), (Some("conflict"), Some(1)), "{failure}");

        let (old_id, old) = create(machine, &acme).await?;
        let rotated = object(machine, &["token", "rotate", &old_id, "--overlap-hours", "24"]).await?;
        machine.leaks.register("CLI token", rotated["token"].as_str().context("no token")?);
        assert_eq!(rotated["workspace"], json!({ "id": acme, "name": "Acme" }));
        assert_eq!((&rotated["name"], &rotated["scopes"]), (&json!("CI"), &json!(["read"])));
        assert!(works(machine, &old).await?, "the old token stopped before the overlap ended");
        server.advance(24 * 3600 + 1);
        assert!(!works(machine, &old).await?, "the old token outlived the overlap");
        Ok(())
    })
}

#[test]
fn rotating_asks_for_a_confirmation_and_a_recent_sign_in_fh_19() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let (id, old) = create(machine, "personal").await?;
        let mut pty = Pty::start(machine, &format!("token rotate {id}"), &[])?;
        pty.expect("What uses it stops working until it has the new one. [y/N] ").await?;
        pty.line("n").await?;
        assert_eq!(pty.end().await?.1, Some(2));
        assert!(works(machine, &old).await?, "it was replaced without a confirmation");

        server.advance(901);
        let (failure, code) = error(machine, &["token", "rotate", &id, "--yes"]).await?;
        assert_eq!((failure["code"].as_str(), code), (Some("reauthentication_required"), Some(4)));
        let mut pty = Pty::start(machine, &format!("token rotate {id} --yes > token.txt"), &[])?;
        pty.expect("Sign in again as ana@acme.test to continue.").await?;
        pty.expect("Code: ").await?;
        let code = loop {
            let mail = server.mailbox.next_mail_to(EMAIL).await?;
            if let Some(code) = mail.code().filter(|_| mail.subject.contains("code")) {
                break code;
            }
        };
        server.leaks.register("otp code", &code);
        pty.line(&code).await?;
        pty.expect("Replaced clit_").await?;
        assert_eq!(pty.end().await?.1, Some(0));
        machine.register_secrets();
        let new = std::fs::read_to_string(machine.home.path().join("token.txt"))?.trim().to_owned();
        machine.leaks.register("CLI token", &new);
        assert!(works(machine, &new).await? && !works(machine, &old).await?);
        Ok(())
    })
}

#[test]
fn only_the_id_of_an_own_token_is_accepted_fh_19() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let expected = "E| error: Token clit_nope not found.\nE| next: service token list\nexit 6";
        assert_eq!(machine.show(&["token", "rotate", "clit_nope", "--yes"]).await?, expected);
        let (token, id) = create_token(server, "bob@acme.test", &json!({})).await?;
        assert_eq!(machine.run(&["token", "rotate", &id, "--yes"]).await?.code, Some(6), "a token of another user");
        let ran = machine.run(&["token", "rotate", &token, "--yes"]).await?;
        ensure!(ran.stderr.starts_with("error: That's a token, not a token ID.") && !ran.stderr.contains(&token));
        assert_eq!(machine.run(&["token", "rotate", &id, "--overlap-hours", "73"]).await?.code, Some(2));
        let ran = machine.run_with(&["token", "rotate", &id, "--yes", "--json"], &[("SERVICE_TOKEN", &token)]).await?;
        let failure: Value = serde_json::from_str(&ran.stderr)?;
        assert_eq!((failure["error"]["source"].as_str(), ran.code), (Some("SERVICE_TOKEN"), Some(5)), "{failure}");
        Ok(())
    })
}
