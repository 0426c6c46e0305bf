//! Machines whose keyring is not there, or never answers.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::net::UnixListener;

use crate::{
    machine::{EMAIL, run},
    pty::Pty,
};

#[test]
fn a_bus_that_never_answers_costs_three_seconds_and_no_sign_in() -> Result<()> {
    run(async |server, machine| {
        let path = machine.home.path().join("bus");
        let bus = UnixListener::bind(&path)?;
        // Accepts, and says nothing.
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
        pty.expect("No system keyring answered (D-Bus did not reply within 3 s).").await?;
        pty.expect("Keep it there? [Y/n] ").await?;
        ensure!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
        let answered = Instant::now();
        pty.line("y").await?;
        pty.expect("Code: ").await?;
        let code = server.mailbox.next_mail_to(EMAIL).await?.code().context("the mail holds no code")?;
        machine.leaks.register("otp code", &code);
        pty.line(&code).await?;
        assert_eq!(pty.end().await?.1, Some(0));
        ensure!(answered.elapsed() < Duration::from_secs(5), "it took {:?}", answered.elapsed());
        machine.learn();
        // The keyring is off the way of every later command.
        let began = Instant::now();
        machine.expire()?;
        let ran = machine.run_with(&["whoami"], &variables).await?;
        assert_eq!(ran.code, Some(0));
        ensure!(began.elapsed() < Duration::from_secs(3), "it asked the keyring");
        held.abort();
        Ok(())
    })
}
