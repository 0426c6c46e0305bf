//! Tests of commands that need a recent sign-in.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use service_testkit::server::TestServer;

use crate::{
    machine::{EMAIL, Machine, run},
    pty::Pty,
};

async fn mailed_code(server: &TestServer) -> Result<String> {
    loop {
        let mail = server.mailbox.next_mail_to(EMAIL).await?;
        if let Some(code) = mail.code().filter(|_| mail.subject.starts_with("Service code: ")) {
            server.leaks.register("otp code", &code);
            return Ok(code);
        }
    }
}

/// Signs in more than 15 minutes ago. Returns the refresh token.
async fn sign_in_long_ago(server: &TestServer, machine: &Machine) -> Result<String> {
    machine.log_in(server).await?;
    server.advance(901);
    machine.refresh_token()
}

#[test]
fn without_a_terminal_an_old_sign_in_is_an_error_rv_06() -> Result<()> {
    run(async |server, machine| {
        sign_in_long_ago(server, machine).await?;
        let expected = "\
E| error: This needs a sign-in from the last 15 minutes.
E| next: service login --force
exit 4";
        assert_eq!(machine.show(&["token", "create", "--personal"]).await?, expected);
        std::fs::write(machine.home.path().join("token.json"), "{}")?;
        let raw = ["api", "POST", "/v1/cli/tokens", "--input", "token.json"];
        assert_eq!(machine.show(&raw).await?, expected);
        let ran = machine.run(&["token", "create", "--personal", "--json"]).await?;
        let error: Value = serde_json::from_str(&ran.stderr)?;
        assert_eq!(error["error"]["code"], "reauthentication_required", "{error}");
        assert_eq!(error["error"]["hint"], "service login --force");
        // Commands that need no recent sign-in still work.
        assert_eq!(machine.run(&["token", "list"]).await?.code, Some(0));
        Ok(())
    })
}

#[test]
fn on_a_terminal_the_user_signs_in_again_and_the_command_continues_rv_06() -> Result<()> {
    run(async |server, machine| {
        let old = sign_in_long_ago(server, machine).await?;
        machine.edit_sign_in(|sign_in| {
            sign_in["workspace"] = json!({ "id": "personal", "name": "Your personal space" });
        })?;
        let mut pty = Pty::start(machine, "token create > token.txt", &[])?;
        pty.expect("This needs a sign-in from the last 15 minutes. Sign in again as ana@acme.test to continue.")
            .await?;
        pty.expect("Code: ").await?;
        let code = mailed_code(server).await?;
        pty.line(&code).await?;
        pty.expect("Created token").await?;
        assert_eq!(pty.end().await?.1, Some(0));
        machine.register_secrets();
        let token = std::fs::read_to_string(machine.home.path().join("token.txt"))?;
        server.leaks.register("access_token", token.trim());
        assert_eq!(server.http.get("/v1/whoami", Some(token.trim())).await?.status, 200);
        assert_ne!(machine.refresh_token()?, old);
        let refused = server.refresh(&old).await?;
        assert_eq!(
            refused.body["details"]["reason"], "revoked_by_user",
            "the previous session was not revoked: {}",
            refused.text
        );
        assert_eq!(machine.sign_in()?["workspace"]["id"], "personal", "the saved workspace was lost");
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(0));
        Ok(())
    })
}

#[test]
fn a_sign_in_as_another_user_changes_nothing_rv_06() -> Result<()> {
    run(async |server, machine| {
        let old = sign_in_long_ago(server, machine).await?;
        // The record names another user: the command believes the service, not the file.
        let bob = server.sign_in("bob@acme.test", "read").await?;
        machine.edit_sign_in(|sign_in| sign_in["user"]["id"] = bob.user_id.to_string().into())?;
        let mut pty = Pty::start(machine, "token create --personal", &[])?;
        pty.expect("Code: ").await?;
        let code = mailed_code(server).await?;
        pty.line(&code).await?;
        pty.expect("You signed in as ana@acme.test, not").await?;
        assert_eq!(pty.end().await?.1, Some(4));
        assert_eq!(machine.refresh_token()?, old);
        Ok(())
    })
}

#[test]
fn later_sign_ins_request_the_same_scopes_rv_56() -> Result<()> {
    run(async |server, machine| {
        let scopes = ["read", "tokens:write"];
        let login = format!("login --method code --store file --email {EMAIL} --scope read --scope tokens:write");
        let mut pty = Pty::start(machine, &login, &[])?;
        pty.expect("Code: ").await?;
        pty.line(&mailed_code(server).await?).await?;
        assert_eq!(pty.end().await?.1, Some(0));
        machine.register_secrets();
        assert_eq!(machine.sign_in()?["scopes"], json!(scopes));
        machine.expire_access_token()?;
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(0));
        assert_eq!(machine.sign_in()?["scopes"], json!(scopes), "a refresh lost the scopes");
        server.advance(901);
        let mut pty = Pty::start(machine, "token create --personal > token.txt", &[])?;
        pty.expect("Code: ").await?;
        pty.line(&mailed_code(server).await?).await?;
        assert_eq!(pty.end().await?.1, Some(0));
        machine.register_secrets();
        let token = std::fs::read_to_string(machine.home.path().join("token.txt"))?;
        server.leaks.register("access_token", token.trim());
        assert_eq!(machine.sign_in()?["scopes"], json!(scopes), "signing in again lost the scopes");
        let ran = machine.run(&["login", "--scope", "everything"]).await?;
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        Ok(())
    })
}

#[test]
fn the_browser_has_to_sign_the_same_user_in_again_rv_06() -> Result<()> {
    run(async |server, machine| {
        sign_in_long_ago(server, machine).await?;
        let mut pty = Pty::start(machine, "token create --personal > token.txt", &[("BROWSER", "true")])?;
        let shown = pty.expect("Waiting for you").await?;
        let address = shown.split_whitespace().find(|word| word.contains("/oauth/authorize?")).context("no address")?;
        assert!(address.contains("max_age=900") && address.contains("login_hint=ana%40acme.test"), "{address}");
        let tab = service_testkit::tab::Tab::open(server)?;
        server.advance(60);
        let back = tab.agree_to(&server.mailbox, address, EMAIL).await?;
        reqwest::Client::builder().no_proxy().build()?.get(back).send().await?;
        pty.expect("Created token").await?;
        assert_eq!(pty.end().await?.1, Some(0));
        machine.register_secrets();
        let token = std::fs::read_to_string(machine.home.path().join("token.txt"))?;
        server.leaks.register("access_token", token.trim());
        Ok(())
    })
}
