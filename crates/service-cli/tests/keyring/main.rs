//! Tests with the GNOME keyring, unlocked, on its own D-Bus session.

#[path = "../it/machine.rs"]
#[expect(dead_code, reason = "the tests in `it` use the rest")]
mod machine;
#[path = "../it/pty.rs"]
#[expect(dead_code, reason = "the tests in `it` use the rest")]
mod pty;

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use service_testkit::server::TestServer;

use self::{
    machine::{EMAIL, Machine, run},
    pty::Pty,
};

/// A D-Bus session with a keyring, which stops with it.
struct Bus {
    daemon: Child,
}

impl Drop for Bus {
    fn drop(&mut self) {
        drop(self.daemon.kill());
        drop(self.daemon.wait());
    }
}

impl Bus {
    /// Starts the session and the keyring, and a machine that uses them.
    fn start(machine: &Machine) -> Result<(Self, Machine)> {
        let machine = Machine::new(&machine.url, &machine.leaks)?;
        let home = machine.home.path().display().to_string();
        let mut daemon = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--print-address=1"])
            .env("HOME", &home)
            .env("XDG_RUNTIME_DIR", &home)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("there is no dbus-daemon")?;
        let mut address = String::new();
        BufReader::new(daemon.stdout.take().context("the bus says nothing")?).read_line(&mut address)?;
        let bus = Self { daemon };
        let machine = machine.with("DBUS_SESSION_BUS_ADDRESS", address.trim()).with("XDG_RUNTIME_DIR", &home);
        let mut keyring = Command::new("gnome-keyring-daemon")
            .args(["--daemonize", "--unlock", "--components=secrets"])
            .env_clear()
            .envs(machine.variables())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("there is no gnome-keyring-daemon; Debian has it in gnome-keyring")?;
        keyring.stdin.take().context("no input")?.write_all(b"a password of its own")?;
        ensure!(keyring.wait()?.success(), "the keyring did not start");
        Ok((bus, machine))
    }
}

async fn log_in(server: &TestServer, machine: &Machine) -> Result<()> {
    let mut pty = Pty::start(machine, &format!("login --method code --email {EMAIL}"), &[])?;
    pty.expect("Code: ").await?;
    let code = server.mailbox.next_mail_to(EMAIL).await?.code().context("the mail has no code")?;
    server.leaks.register("otp code", &code);
    pty.line(&code).await?;
    pty.expect("Stored in: system keyring").await?;
    ensure!(pty.end().await?.1 == Some(0), "no sign-in");
    Ok(())
}

#[test]
fn the_refresh_token_is_in_the_keyring_and_in_no_file() -> Result<()> {
    run(async |server, machine| {
        let (_bus, machine) = Bus::start(machine)?;
        log_in(server, &machine).await?;
        assert_eq!(machine.sign_in()?["store"], "keyring");
        ensure!(!fs::read_to_string(machine.credentials_path())?.contains("svc_rt_"));
        let who = machine.run(&["whoami"]).await?;
        ensure!(who.stdout.contains("Stored in    system keyring"), "{who:?}");
        for _ in 0..3 {
            machine.expire_access_token()?;
            assert_eq!(machine.run(&["whoami"]).await?.code, Some(0));
        }
        ensure!(!fs::read_to_string(machine.credentials_path())?.contains("svc_rt_"));
        let out = machine.show(&["logout"]).await?;
        ensure!(out.contains("removed from the system keyring."), "{out}");
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(4));
        Ok(())
    })
}

#[test]
fn two_sign_ins_of_one_user_have_entries_of_their_own() -> Result<()> {
    run(async |server, machine| {
        let (_bus, machine) = Bus::start(machine)?;
        log_in(server, &machine).await?;
        // Another directory, and another user.
        let mut other = Machine::new(&machine.url, &machine.leaks)?;
        other.environment.clone_from(&machine.environment);
        other.environment.push(("HOME".to_owned(), machine.home.path().display().to_string()));
        let mut pty = Pty::start(&other, "login --method code --email bob@acme.test", &[])?;
        pty.expect("Code: ").await?;
        let code = server.mailbox.next_mail_to("bob@acme.test").await?.code().context("the mail has no code")?;
        server.leaks.register("otp code", &code);
        pty.line(&code).await?;
        assert_eq!(pty.end().await?.1, Some(0));
        for (machine, email) in [(&machine, EMAIL), (&other, "bob@acme.test")] {
            machine.expire_access_token()?;
            let who = machine.run(&["whoami", "--jq", ".user.email"]).await?;
            assert_eq!(who.stdout.trim(), email, "{who:?}");
        }
        assert_eq!(machine.run(&["logout"]).await?.code, Some(0));
        other.expire_access_token()?;
        assert_eq!(other.run(&["whoami"]).await?.code, Some(0), "the other was signed out");
        Ok(())
    })
}

/// The keyring stops, so that the refresh token cannot be read. The session is revoked with the access token.
#[test]
fn without_its_keyring_a_session_is_revoked_and_the_next_one_can_use_a_file() -> Result<()> {
    run(async |server, machine| {
        let (bus, machine) = Bus::start(machine)?;
        log_in(server, &machine).await?;
        drop(bus);
        let live = "select count(*) from grants where revoked_at is null";
        assert_eq!(server.sql(live).await?.as_deref(), Some("1"));
        let ran = machine.run(&["logout"]).await?;
        assert_eq!((ran.code, server.sql(live).await?.as_deref()), (Some(0), Some("0")), "{ran:?}");
        let (bus, machine) = Bus::start(&machine)?;
        server.advance(61);
        log_in(server, &machine).await?;
        drop(bus);
        server.advance(61);
        machine.log_in(server).await?;
        assert_eq!(machine.sign_in()?["store"], "file");
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(0));
        assert_eq!(server.sql(live).await?.as_deref(), Some("1"), "the previous session was not revoked");
        Ok(())
    })
}

#[test]
fn two_directories_that_share_a_keyring_entry_share_its_lock() -> Result<()> {
    run(async |server, machine| {
        let (_bus, machine) = Bus::start(machine)?;
        log_in(server, &machine).await?;
        machine.expire_access_token()?;
        let other = machine.home.path().join("other");
        fs::create_dir(&other)?;
        fs::copy(machine.credentials_path(), other.join("credentials.json"))?;
        let mut running = Vec::new();
        for number in 0..20 {
            let mut command = machine.command();
            if number % 2 == 0 {
                command.env("SERVICE_CONFIG_DIR", &other);
            }
            let mut command = tokio::process::Command::from(command);
            running.push(command.arg("whoami").stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?);
        }
        for child in running {
            let output = child.wait_with_output().await?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        // Once for each directory, one after the other, and never with a token that was already used.
        let metrics = server.ops.get("/metrics", None).await?.text;
        let counts = metrics.lines().filter(|line| line.starts_with("service_refreshes_total"));
        let counts: Vec<_> = counts.filter(|line| !line.ends_with(" 0")).collect();
        assert_eq!(counts, ["service_refreshes_total{outcome=\"rotated\"} 2"]);
        machine.register_secrets();
        Ok(())
    })
}
