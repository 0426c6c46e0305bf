//! Renewing a sign-in: by many processes at once, by processes that are killed, and against a server that is in trouble.

use std::{fs, time::Duration};

use anyhow::{Result, ensure};
use service_testkit::server::TestServer;

use crate::machine::{run, variable};

/// How often the service was shown a refresh token, by what that meant.
async fn refreshes(server: &TestServer) -> Result<Vec<String>> {
    let metrics = server.ops.get("/metrics", None).await?.text;
    Ok(metrics.lines().filter(|line| line.starts_with("service_refreshes_total")).map(str::to_owned).collect())
}

async fn total(server: &TestServer) -> Result<u64> {
    let counts = refreshes(server).await?;
    Ok(counts.iter().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
}

#[test]
fn forty_processes_with_an_old_token_renew_it_once() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        machine.expire()?;
        let before = total(server).await?;
        let running: Vec<_> = (0..40).map(|_| machine.command().arg("whoami").output_later()).collect::<Result<_>>()?;
        for child in running {
            let output = child.wait_with_output().await?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        machine.learn();
        assert_eq!(total(server).await? - before, 1, "{:?}", refreshes(server).await?);
        Ok(())
    })
}

#[test]
fn forty_processes_that_learn_from_the_server_that_a_token_is_old_renew_it_once() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        // To the command it looks as good as new.
        server.advance(1000);
        let before = total(server).await?;
        let running: Vec<_> = (0..40).map(|_| machine.command().arg("whoami").output_later()).collect::<Result<_>>()?;
        for child in running {
            let output = child.wait_with_output().await?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        machine.learn();
        assert_eq!(total(server).await? - before, 1, "{:?}", refreshes(server).await?);
        Ok(())
    })
}

/// Kills at a moment that moves through the whole life of a renewing command; `SERVICE_CLI_KILLS` says how often.
#[test]
fn a_renewal_that_is_killed_costs_nothing() -> Result<()> {
    let kills: u32 = variable("SERVICE_CLI_KILLS").and_then(|count| count.parse().ok()).unwrap_or(40);
    run(async |server, machine| {
        machine.log_in(server).await?;
        machine.expire()?;
        let began = std::time::Instant::now();
        ensure!(machine.run(&["whoami"]).await?.code == Some(0));
        let whole = began.elapsed();
        let mut finished = 0;
        for round in 0..kills {
            machine.expire()?;
            let mut child = machine.command().arg("whoami").output_later()?;
            // The fault itself: the moment at which the process dies.
            tokio::time::sleep(whole * round / kills).await;
            drop(child.start_kill());
            finished += u32::from(child.wait().await?.success());
            // Later than the service remembers a lost answer, in every second round.
            server.advance(if round % 2 == 0 { 0 } else { 61 });
            // Not searched for secrets each time: thousands of them would take longer than the kills.
            let next = machine.command().args(["whoami", "--json", "--jq", ".status"]).output_later()?;
            let next = next.wait_with_output().await?;
            ensure!(next.stdout == b"valid\n", "after {round} kills: {}", String::from_utf8_lossy(&next.stderr));
            machine.learn();
        }
        ensure!(finished < kills, "none was killed in time");
        Ok(())
    })
}

#[test]
fn a_session_that_ended_is_forgotten_and_its_token_not_sent_again() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        server.sql("update grants set revoked_at = created_at, revoked_because = 'revoked_by_user'").await?;
        machine.expire()?;
        let transcript = machine.show(&["token", "list"]).await?;
        assert_eq!(
            transcript,
            "E| error: Your session has ended (signed out elsewhere).\nE| next: service login\nexit 4"
        );
        let sent = total(server).await?;
        let transcript = machine.show(&["token", "list"]).await?;
        assert_eq!(
            transcript,
            "E| error: Not signed in.\nE| next: service login\nE| next: in CI: set SERVICE_TOKEN\nexit 4"
        );
        assert_eq!(total(server).await?, sent);
        Ok(())
    })
}

#[test]
fn trouble_on_the_way_keeps_the_sign_in() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        machine.expire()?;
        let before = fs::read_to_string(machine.file())?;
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let elsewhere = format!("http://{}", silent.local_addr()?);
        drop(silent);
        // The same sign-in, at an address where nobody listens.
        fs::write(machine.file(), before.replace(&machine.url, &elsewhere))?;
        let ran = machine.run_with(&["whoami"], &[("SERVICE_API_URL", &elsewhere)]).await?;
        assert_eq!(ran.code, Some(7), "{ran:?}");
        assert!(ran.stderr.contains("Could not check the token: Could not reach"), "{}", ran.stderr);
        assert_eq!(fs::read_to_string(machine.file())?, before.replace(&machine.url, &elsewhere));
        fs::write(machine.file(), before)?;
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(0));
        Ok(())
    })
}

#[test]
fn a_lock_that_is_held_is_waited_for() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        machine.expire()?;
        let lock = fs::File::options().write(true).open(machine.config().join("credentials.lock"))?;
        lock.lock()?;
        let before = total(server).await?;
        let child = machine.command().arg("whoami").output_later()?;
        let ended = tokio::time::timeout(Duration::from_millis(500), child.wait_with_output()).await;
        ensure!(ended.is_err(), "it did not wait");
        assert_eq!(total(server).await?, before, "it renewed without the lock");
        lock.unlock()?;
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(0));
        Ok(())
    })
}

/// A command that runs while the test goes on.
trait Later {
    fn output_later(&mut self) -> Result<tokio::process::Child>;
}

impl Later for std::process::Command {
    fn output_later(&mut self) -> Result<tokio::process::Child> {
        let command = std::mem::replace(self, Self::new("true"));
        let mut command = tokio::process::Command::from(command);
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
        Ok(command.stderr(std::process::Stdio::piped()).kill_on_drop(true).spawn()?)
    }
}
