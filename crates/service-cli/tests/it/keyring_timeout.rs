//! A keyring that never responds.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::net::UnixListener;

use crate::{
    machine::{EMAIL, run},
    pty::Pty,
};

#[test]
fn a_silent_keyring_delays_login_by_three_seconds_and_no_later_command() -> Result<()> {
    run(async |server, machine| {
        let path = machine.home.path().join("bus");
        let bus = UnixListener::bind(&path)?;
        // Accepts connections, and never responds.
        let held = tokio::spawn(async move {
            let mut connections = Vec::new();
            while let Ok(connection) = bus.accept().await {
                connections.push(connection);
            }
        });
        let address = format!("unix:path={}", path.display());
        let variables = [("DBUS_SESSION_BUS_ADDRESS", address.as_str())];
        let began = Instant::now();
        let mut pty = Pty::start(machine, &format!("login --email {EMAIL} --method code"), &variables)?;
        pty.expect("No system keyring available (no response within 3 seconds).").await?;
        pty.expect("Store them there? [Y/n] ").await?;
        ensure!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
        let answered = Instant::now();
        pty.line("y").await?;
        pty.expect("Code: ").await?;
        let code = server.mailbox.next_mail_to(EMAIL).await?.code().context("the mail has no code")?;
        machine.leaks.register("otp code", &code);
        pty.line(&code).await?;
        assert_eq!(pty.end().await?.1, Some(0));
        ensure!(answered.elapsed() < Duration::from_secs(5), "it took {:?}", answered.elapsed());
        machine.register_secrets();
        // Later commands do not use the keyring.
        let began = Instant::now();
        machine.expire_access_token()?;
        let ran = machine.run_with(&["whoami"], &variables).await?;
        assert_eq!(ran.code, Some(0));
        ensure!(began.elapsed() < Duration::from_secs(3), "it asked the keyring");
        held.abort();
        Ok(())
    })
}
