//! Tests of `service login` with an email code, and without a terminal.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use service_testkit::server::TestServer;

use crate::{
    machine::{EMAIL, Machine, run, run_with},
    passkey::make_passkey_that_counts,
    pty::{CTRL_C, Pty},
    whoami::create_token,
};

async fn mailed_code(server: &TestServer) -> Result<String> {
    let code = server.mailbox.next_mail_to(EMAIL).await?.code().context("the mail has no code")?;
    server.leaks.register("otp code", &code);
    Ok(code)
}

fn wrong_code(code: &str) -> String {
    let last = if code.ends_with('0') { '1' } else { '0' };
    format!("{}{last}", &code[..code.len() - 1])
}

#[test]
fn over_ssh_a_code_signs_in() -> Result<()> {
    run(async |server, machine| {
        let variables = [("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22"), ("DISPLAY", ":0")];
        let mut pty = Pty::start(machine, "login", &variables)?;
        pty.expect("No system keyring available (no D-Bus session).").await?;
        pty.expect("readable only by you.").await?;
        pty.expect("Store them there? [Y/n] ").await?;
        pty.line("").await?;
        pty.expect("No browser available (SSH session). Signing in with an email code instead.").await?;
        pty.expect("Email: ").await?;
        pty.line(EMAIL).await?;
        pty.expect("We sent an 8-digit code to ana@acme.test. It expires in 10 minutes.").await?;
        pty.expect("Code: ").await?;
        let code = mailed_code(server).await?;
        // In the format of the mail.
        pty.line(&format!("{} {}", &code[..4], &code[4..])).await?;
        pty.expect("✓").await?;
        pty.expect(" Signed in as ana@acme.test").await?;
        pty.expect("Workspace: Personal   Stored in: ").await?;
        let (_, exit) = pty.end().await?;
        machine.register_secrets();
        assert_eq!(exit, Some(0));
        assert_eq!(machine.sign_in()?["store"], "file");
        Ok(())
    })
}

#[test]
fn where_a_passkey_is_required_the_browser_goes_on_after_the_code() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        make_passkey_that_counts(server, machine).await?;
        server.sql("update users set requires_passkey = true").await?;
        server.advance(61);
        let arguments = format!("login --force --email {EMAIL} --method code --store file");
        let mut pty = Pty::start(machine, &arguments, &[("BROWSER", "true")])?;
        pty.expect("Code: ").await?;
        let code = mailed_code(server).await?;
        pty.line(&code).await?;
        pty.expect("Your account requires a passkey, which needs a browser.").await?;
        pty.expect("/oauth/authorize?").await?;
        pty.press(CTRL_C).await?;
        assert_ne!(pty.end().await?.1, Some(0));
        Ok(())
    })
}

#[test]
fn after_three_wrong_codes_a_new_one_is_offered() -> Result<()> {
    run(async |server, machine| {
        let mut pty = Pty::start(machine, &format!("login --email {EMAIL} --method code --store file"), &[])?;
        pty.expect("Code: ").await?;
        let code = mailed_code(server).await?;
        pty.line("12").await?;
        pty.expect("The code has 8 digits.").await?;
        for _ in 0..3 {
            pty.expect("Code: ").await?;
            pty.line(&wrong_code(&code)).await?;
            pty.expect("That code is wrong.").await?;
        }
        pty.expect("Send a new code to ana@acme.test? [Y/n] ").await?;
        server.advance(61);
        pty.line("y").await?;
        pty.expect("We sent an 8-digit code").await?;
        pty.expect("Code: ").await?;
        let code = mailed_code(server).await?;
        pty.line(&code).await?;
        pty.expect("Signed in as ana@acme.test").await?;
        assert_eq!(pty.end().await?.1, Some(0));
        machine.register_secrets();
        Ok(())
    })
}

#[test]
fn too_many_codes_fail_with_the_time_to_wait() -> Result<()> {
    run_with(&[("limits.otp_sends_per_context", "1/60")], async |server, machine| {
        let mut pty = Pty::start(machine, &format!("login --email {EMAIL} --method code --store file"), &[])?;
        pty.expect("Code: ").await?;
        let code = mailed_code(server).await?;
        for _ in 0..3 {
            pty.line(&wrong_code(&code)).await?;
            pty.expect("That code is wrong.").await?;
        }
        pty.expect("[Y/n] ").await?;
        server.advance(15);
        pty.line("").await?;
        pty.expect("Too many codes were requested for this address. Try again in 45 seconds.").await?;
        assert_eq!(pty.end().await?.1, Some(8));
        assert!(!machine.credentials_path().exists());
        Ok(())
    })
}

#[test]
fn a_known_machine_gets_a_code_when_other_clients_used_up_the_limit_rv_08() -> Result<()> {
    run_with(&[("limits.otp_sends_per_address", "3/86400")], async |server, machine| {
        machine.log_in(server).await?;
        assert_eq!(machine.run(&["logout"]).await?.code, Some(0));
        let devices: Value = serde_json::from_slice(&std::fs::read(machine.config_dir().join("devices.json"))?)?;
        let secret = devices["devices"][&machine.url][EMAIL].as_str().context("no device secret is stored")?.to_owned();
        assert!(secret.starts_with("svc_dev_"));
        // Another client requests codes until the limit of the address is used up.
        for status in [201, 201, 429] {
            let asked = server.http.post("/v1/otp-tokens", &json!({ "email": EMAIL })).await?;
            assert_eq!(asked.status, status);
            if status == 201 {
                mailed_code(server).await?;
            }
        }
        machine.log_in(server).await?;
        let again: Value = serde_json::from_slice(&std::fs::read(machine.config_dir().join("devices.json"))?)?;
        assert_eq!(again, devices);
        let newcomer = Machine::new(&machine.url, &machine.leaks)?;
        let mut pty = Pty::start(&newcomer, &format!("login --email {EMAIL} --method code --store file"), &[])?;
        pty.expect("Too many codes were requested for this address.").await?;
        assert_eq!(pty.end().await?.1, Some(8));
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
        assert!(!machine.credentials_path().exists());
        Ok(())
    })
}

#[test]
fn without_a_terminal_login_fails_with_a_hint() -> Result<()> {
    run(async |server, machine| {
        let expected = "\
E| error: Signing in needs a terminal.
E| next: In CI or scripts, set SERVICE_TOKEN. Create one with: service token create --workspace-id <id>
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
fn a_signed_in_user_is_asked_and_the_previous_session_is_revoked_after_the_new_one_is_saved() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let mut pty = Pty::start(machine, "login", &[])?;
        pty.expect("You're signed in as ana@acme.test (").await?;
        pty.expect("Sign in again? The current session is revoked once the new one is saved. [y/N] ").await?;
        pty.line("").await?;
        assert_eq!(pty.end().await?.1, Some(0));
        let before = machine.sign_in()?;
        server.advance(61);
        machine.log_in(server).await?;
        assert_ne!(before["entry"], machine.sign_in()?["entry"]);
        let live = server.sql("select count(*) from grants where revoked_at is null").await?;
        assert_eq!(live.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn service_token_overrides_the_session_and_does_not_block_login() -> Result<()> {
    run(async |server, machine| {
        let (token, _) = create_token(server, "bot@acme.test", &json!({})).await?;
        let own = Machine::new(&machine.url, &machine.leaks)?;
        let arguments = format!("login --email {EMAIL} --method code --store file");
        let mut pty = Pty::start(&own, &arguments, &[("SERVICE_TOKEN", &token)])?;
        let first = "SERVICE_TOKEN is set, so commands keep using it. The new session is used once you unset it.";
        pty.expect(first).await?;
        pty.expect("Code: ").await?;
        let code = mailed_code(server).await?;
        pty.line(&code).await?;
        pty.expect("Still using SERVICE_TOKEN (Personal). To use this session: unset SERVICE_TOKEN").await?;
        assert_eq!(pty.end().await?.1, Some(0));
        own.register_secrets();
        server.advance(61);
        let arguments = format!("login --email {EMAIL} --method code --store file --json > out.json");
        let mut pty = Pty::start(machine, &arguments, &[("SERVICE_TOKEN", &token)])?;
        pty.expect("Code: ").await?;
        let code = mailed_code(server).await?;
        pty.line(&code).await?;
        assert_eq!(pty.end().await?.1, Some(0));
        machine.register_secrets();
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
fn a_requested_keyring_is_not_replaced_by_a_file() -> Result<()> {
    run(async |_, machine| {
        let (screen, exit) = Pty::start(machine, "login --store keyring", &[])?.end().await?;
        let screen = machine.redact(&screen);
        assert!(screen.contains("No system keyring available (no D-Bus session)."), "{screen}");
        assert!(
            screen.contains("To store your credentials in <config>/credentials.json: service login --store file"),
            "{screen}"
        );
        assert_eq!(exit, Some(1));
        Ok(())
    })
}

#[test]
fn an_unreachable_service_fails_with_exit_code_7() -> Result<()> {
    run(async |server, _| {
        let nowhere = Machine::new("http://127.0.0.1:9", &server.leaks)?;
        let (screen, exit) =
            Pty::start(&nowhere, &format!("login --email {EMAIL} --method code --store file"), &[])?.end().await?;
        assert!(screen.contains("Can't reach 127.0.0.1:9 (connection refused)."), "{screen}");
        assert_eq!(exit, Some(7));
        let plain = Machine::new("http://service.example", &server.leaks)?;
        assert_eq!(plain.run(&["whoami"]).await?.code, Some(2));
        Ok(())
    })
}

#[test]
fn a_typo_in_the_address_or_the_code_asks_again_fh_17() -> Result<()> {
    run(async |server, machine| {
        let mut pty = Pty::start(machine, "login --email ana.acme.test --method code --store file", &[])?;
        pty.expect("That isn't a valid email address.").await?;
        pty.expect("Email: ").await?;
        pty.line("anna@acme.test").await?;
        pty.expect("code to anna@acme.test.").await?;
        pty.expect("Wrong address? Enter the right one instead of the code.").await?;
        pty.expect("Code: ").await?;
        pty.line("not an address@").await?;
        pty.expect("That isn't a valid email address.").await?;
        pty.expect("Email: ").await?;
        pty.line(EMAIL).await?;
        pty.expect("code to ana@acme.test.").await?;
        pty.expect("Code: ").await?;
        let code = mailed_code(server).await?;
        pty.line(&wrong_code(&code)).await?;
        pty.expect("That code is wrong.").await?;
        pty.expect("Code: ").await?;
        pty.line(&code).await?;
        pty.expect("Signed in as ana@acme.test").await?;
        assert_eq!(pty.end().await?.1, Some(0));
        machine.register_secrets();
        Ok(())
    })
}

#[test]
fn a_wait_says_what_for_fh_17() -> Result<()> {
    run(async |server, _| {
        // A server that accepts a connection and never answers.
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let machine = Machine::new(&format!("http://{}", silent.local_addr()?), &server.leaks)?;
        let arguments = format!("login --email {EMAIL} --method code --store file");
        for (variables, waits) in
            [(&[][..], "Checking how you sign in…"), (&[("TERM", "dumb")], "Checking how you sign in...")]
        {
            let mut pty = Pty::start(&machine, &arguments, variables)?;
            pty.expect(waits).await?;
            pty.press(CTRL_C).await?;
            assert_eq!(pty.end().await?.1, Some(130));
        }
        Ok(())
    })
}
