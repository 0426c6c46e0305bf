//! `service login` on a real terminal, with a code by mail; and where there is no terminal.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use service_testkit::server::TestServer;

use crate::{
    machine::{EMAIL, Machine, run},
    pty::{CTRL_C, Pty},
    whoami::make_token,
};

async fn mailed_code(server: &TestServer) -> Result<String> {
    let code = server.mailbox.next_mail_to(EMAIL).await?.code().context("the mail holds no code")?;
    server.leaks.register("otp code", &code);
    Ok(code)
}

fn wrong(code: &str) -> String {
    let last = if code.ends_with('0') { '1' } else { '0' };
    format!("{}{last}", &code[..code.len() - 1])
}

#[test]
fn over_ssh_a_code_signs_in() -> Result<()> {
    run(async |server, machine| {
        let variables = [("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22"), ("DISPLAY", ":0")];
        let mut pty = Pty::start(machine, "login", &variables)?;
        pty.expect("No system keyring answered (no D-Bus session).").await?;
        pty.expect("readable only by you.").await?;
        pty.expect("Keep it there? [Y/n] ").await?;
        pty.line("").await?;
        pty.expect("No browser here (SSH session). Signing in with an email code instead.").await?;
        pty.expect("Email: ").await?;
        pty.line(EMAIL).await?;
        pty.expect("We sent a code of 8 digits to ana@acme.test. It works for 10 minutes.").await?;
        pty.expect("Code: ").await?;
        let code = mailed_code(server).await?;
        // As the mail shows it.
        pty.line(&format!("{} {}", &code[..4], &code[4..])).await?;
        pty.expect("✓").await?;
        pty.expect(" Signed in as ana@acme.test").await?;
        pty.expect("Workspace: your personal space   Saved in: ").await?;
        let (_, exit) = pty.end().await?;
        machine.learn();
        assert_eq!(exit, Some(0));
        assert_eq!(machine.sign_in()?["store"], "file");
        Ok(())
    })
}

#[test]
fn a_wrong_code_is_asked_for_again_and_then_a_new_one_is_offered() -> Result<()> {
    run(async |server, machine| {
        let mut pty = Pty::start(machine, &format!("login --email {EMAIL} --method code --store file"), &[])?;
        pty.expect("Code: ").await?;
        let code = mailed_code(server).await?;
        pty.line("12").await?;
        pty.expect("A code has 8 digits.").await?;
        for _ in 0..3 {
            pty.expect("Code: ").await?;
            pty.line(&wrong(&code)).await?;
            pty.expect("That code is not right.").await?;
        }
        pty.expect("Send a new code to ana@acme.test? [Y/n] ").await?;
        server.advance(61);
        pty.line("y").await?;
        pty.expect("We sent a code of 8 digits").await?;
        pty.expect("Code: ").await?;
        let code = mailed_code(server).await?;
        pty.line(&code).await?;
        pty.expect("Signed in as ana@acme.test").await?;
        assert_eq!(pty.end().await?.1, Some(0));
        machine.learn();
        Ok(())
    })
}

#[test]
fn too_many_codes_end_with_how_long_to_wait() -> Result<()> {
    run(async |server, machine| {
        let mut pty = Pty::start(machine, &format!("login --email {EMAIL} --method code --store file"), &[])?;
        pty.expect("Code: ").await?;
        let code = mailed_code(server).await?;
        for _ in 0..3 {
            pty.line(&wrong(&code)).await?;
            pty.expect("That code is not right.").await?;
        }
        pty.expect("[Y/n] ").await?;
        server.advance(15);
        pty.line("").await?;
        pty.expect("Too many codes were requested for this address. Try again in 45 seconds.").await?;
        assert_eq!(pty.end().await?.1, Some(8));
        assert!(!machine.file().exists());
        Ok(())
    })
}

#[test]
fn ctrl_c_stops_and_saves_nothing() -> Result<()> {
    run(async |_, machine| {
        let mut pty = Pty::start(machine, &format!("login --email {EMAIL} --method code --store file"), &[])?;
        pty.expect("Code: ").await?;
        pty.press(CTRL_C).await?;
        pty.expect("Stopped. Nothing was saved.").await?;
        assert_eq!(pty.end().await?.1, Some(130));
        assert!(!machine.file().exists());
        Ok(())
    })
}

#[test]
fn without_a_terminal_it_says_what_to_do_instead() -> Result<()> {
    run(async |server, machine| {
        let expected = "\
E| error: Signing in needs a terminal.
E| next: in CI or scripts set SERVICE_TOKEN; make one with: service token create --workspace-id <id>
exit 2";
        assert_eq!(machine.show(&["login"]).await?, expected);
        let object: Value = serde_json::from_str(&machine.run(&["login", "--json"]).await?.stderr)?;
        assert_eq!(object["error"]["code"], "needs_terminal");
        machine.log_in(server).await?;
        let expected = "E| error: Already signed in as ana@acme.test.\nE| next: service login --force\nexit 2";
        assert_eq!(machine.show(&["login"]).await?, expected);
        Ok(())
    })
}

#[test]
fn somebody_who_is_signed_in_is_asked_and_the_old_session_ends_after_the_new_one_is_kept() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let mut pty = Pty::start(machine, "login", &[])?;
        pty.expect("You are signed in as ana@acme.test (").await?;
        pty.expect("Sign in again? The current sign-in ends once the new one works. [y/N] ").await?;
        pty.line("").await?;
        assert_eq!(pty.end().await?.1, Some(0));
        let before = machine.sign_in()?;
        server.advance(61);
        machine.log_in(server).await?;
        assert_ne!(before["refreshToken"], machine.sign_in()?["refreshToken"]);
        let live = server.sql("select count(*) from grants where revoked_at is null").await?;
        assert_eq!(live.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn a_token_in_the_environment_shadows_the_sign_in_and_does_not_block_it() -> Result<()> {
    run(async |server, machine| {
        let (token, _) = make_token(server, "bot@acme.test", &json!({})).await?;
        let own = Machine::new(&machine.url, &machine.leaks)?;
        let arguments = format!("login --email {EMAIL} --method code --store file");
        let mut pty = Pty::start(&own, &arguments, &[("SERVICE_TOKEN", &token)])?;
        let first = "SERVICE_TOKEN is set, so commands keep using it. This sign-in is saved for when it is unset.";
        pty.expect(first).await?;
        pty.expect("Code: ").await?;
        let code = mailed_code(server).await?;
        pty.line(&code).await?;
        pty.expect("Still using SERVICE_TOKEN (your personal space). To use this sign-in: unset SERVICE_TOKEN").await?;
        assert_eq!(pty.end().await?.1, Some(0));
        own.learn();
        server.advance(61);
        let arguments = format!("login --email {EMAIL} --method code --store file --json > out.json");
        let mut pty = Pty::start(machine, &arguments, &[("SERVICE_TOKEN", &token)])?;
        pty.expect("Code: ").await?;
        let code = mailed_code(server).await?;
        pty.line(&code).await?;
        assert_eq!(pty.end().await?.1, Some(0));
        machine.learn();
        let object: Value = serde_json::from_slice(&std::fs::read(machine.home.path().join("out.json"))?)?;
        assert_eq!(object["status"], "signed_in");
        assert_eq!(object["user"]["email"], EMAIL);
        assert_eq!(object["shadowedBy"], "SERVICE_TOKEN");
        assert_eq!(object["store"], "file");
        assert_eq!(object["scopes"], json!(["read", "write"]));
        Ok(())
    })
}

#[test]
fn a_keyring_that_was_asked_for_is_not_replaced_by_a_file() -> Result<()> {
    run(async |_, machine| {
        let (screen, exit) = Pty::start(machine, "login --store keyring", &[])?.end().await?;
        let screen = machine.plain(&screen);
        assert!(screen.contains("No system keyring answered (no D-Bus session)."), "{screen}");
        assert!(
            screen.contains("service login --store file     keeps the sign-in in <config>/credentials.json"),
            "{screen}"
        );
        assert_eq!(exit, Some(1));
        Ok(())
    })
}

#[test]
fn a_service_that_is_not_there_is_not_mistaken_for_a_wrong_answer() -> Result<()> {
    run(async |server, _| {
        let nowhere = Machine::new("http://127.0.0.1:9", &server.leaks)?;
        let (screen, exit) =
            Pty::start(&nowhere, &format!("login --email {EMAIL} --method code --store file"), &[])?.end().await?;
        assert!(screen.contains("Could not reach 127.0.0.1:9: nothing listens there."), "{screen}");
        assert_eq!(exit, Some(7));
        let plain = Machine::new("http://service.example", &server.leaks)?;
        assert_eq!(plain.run(&["whoami"]).await?.code, Some(2));
        Ok(())
    })
}
