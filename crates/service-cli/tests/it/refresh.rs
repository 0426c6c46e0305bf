//! Tests of refreshing a session: by concurrent processes, by processes that are killed, and with failures of the server.

use std::{fs, time::Duration};

use anyhow::{Result, ensure};
use service_testkit::server::TestServer;

use crate::machine::{Machine, run, variable};

/// The metric that counts refreshes by their outcome.
async fn read_refresh_counts(server: &TestServer) -> Result<Vec<String>> {
    let metrics = server.ops.get("/metrics", None).await?.text;
    Ok(metrics.lines().filter(|line| line.starts_with("service_refreshes_total")).map(str::to_owned).collect())
}

async fn count_refreshes(server: &TestServer) -> Result<u64> {
    let counts = read_refresh_counts(server).await?;
    Ok(counts.iter().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
}

async fn assert_forty_processes_refresh_once(server: &TestServer, machine: &Machine) -> Result<()> {
    let before = count_refreshes(server).await?;
    let running: Vec<_> = (0..40).map(|_| machine.command().arg("whoami").spawn_piped()).collect::<Result<_>>()?;
    for child in running {
        let output = child.wait_with_output().await?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    machine.register_secrets();
    assert_eq!(count_refreshes(server).await? - before, 1, "{:?}", read_refresh_counts(server).await?);
    Ok(())
}

#[test]
fn forty_processes_with_an_expired_token_refresh_it_once_ci_05() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        machine.expire_access_token()?;
        assert_forty_processes_refresh_once(server, machine).await
    })
}

#[test]
fn forty_processes_refresh_once_when_the_server_rejects_their_token() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        // The server's clock moves; the command still considers the token valid.
        server.advance(1000);
        assert_forty_processes_refresh_once(server, machine).await
    })
}

/// Kills a refreshing command at moments spread over its whole run; `SERVICE_CLI_KILLS` says how often.
#[test]
fn a_renewal_that_is_killed_costs_nothing_ci_03() -> Result<()> {
    let kills: u32 = variable("SERVICE_CLI_KILLS").and_then(|count| count.parse().ok()).unwrap_or(40);
    run(async |server, machine| {
        machine.log_in(server).await?;
        machine.expire_access_token()?;
        let began = std::time::Instant::now();
        ensure!(machine.run(&["whoami"]).await?.code == Some(0));
        let whole = began.elapsed();
        let mut finished = 0;
        for round in 0..kills {
            machine.expire_access_token()?;
            let mut child = machine.command().arg("whoami").spawn_piped()?;
            // The fault itself: the moment at which the process is killed.
            tokio::time::sleep(whole * round / kills).await;
            drop(child.start_kill());
            finished += u32::from(child.wait().await?.success());
            // In every second round, later than the service repeats a lost response.
            server.advance(if round % 2 == 0 { 0 } else { 61 });
            // Its output is not searched for secrets, because with thousands of them that takes too long.
            let next = machine.command().args(["whoami", "--json", "--jq", ".status"]).spawn_piped()?;
            let next = next.wait_with_output().await?;
            ensure!(next.stdout == b"valid\n", "after {round} kills: {}", String::from_utf8_lossy(&next.stderr));
            machine.register_secrets();
        }
        ensure!(finished < kills, "no command was killed in time");
        Ok(())
    })
}

#[test]
fn an_ended_session_is_deleted_and_its_token_not_sent_again_ci_06() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        server.sql("update grants set revoked_at = created_at, revoked_because = 'revoked_by_user'").await?;
        machine.expire_access_token()?;
        let transcript = machine.show(&["token", "list"]).await?;
        assert_eq!(
            transcript,
            "E| error: Your session has ended (signed out elsewhere).\nE| next: service login\nexit 4"
        );
        let sent = count_refreshes(server).await?;
        let transcript = machine.show(&["token", "list"]).await?;
        assert_eq!(
            transcript,
            "E| error: Not signed in to <server> (profile default).\nE| next: service login\nE| next: In CI: set SERVICE_TOKEN\nexit 4"
        );
        assert_eq!(count_refreshes(server).await?, sent);
        Ok(())
    })
}

#[test]
fn an_unreachable_server_keeps_the_session() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        machine.expire_access_token()?;
        let before = fs::read_to_string(machine.credentials_path())?;
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let elsewhere = format!("http://{}", silent.local_addr()?);
        drop(silent);
        // The same session, at an address without a server.
        fs::write(machine.credentials_path(), before.replace(&machine.url, &elsewhere))?;
        let ran = machine.run_with(&["whoami"], &[("SERVICE_API_URL", &elsewhere)]).await?;
        assert_eq!(ran.code, Some(7), "{ran:?}");
        assert!(ran.stderr.contains("(connection refused). Your credentials were not checked."), "{}", ran.stderr);
        assert_eq!(fs::read_to_string(machine.credentials_path())?, before.replace(&machine.url, &elsewhere));
        fs::write(machine.credentials_path(), before)?;
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(0));
        Ok(())
    })
}

#[test]
fn a_command_waits_for_the_lock() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        machine.expire_access_token()?;
        let lock = fs::File::options().write(true).open(machine.config_dir().join("credentials.lock"))?;
        lock.lock()?;
        let before = count_refreshes(server).await?;
        let child = machine.command().arg("whoami").spawn_piped()?;
        let ended = tokio::time::timeout(Duration::from_millis(500), child.wait_with_output()).await;
        ensure!(ended.is_err(), "it did not wait");
        assert_eq!(count_refreshes(server).await?, before, "it refreshed without the lock");
        lock.unlock()?;
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(0));
        Ok(())
    })
}

/// Starts a command that runs while the test continues.
trait SpawnPiped {
    fn spawn_piped(&mut self) -> Result<tokio::process::Child>;
}

impl SpawnPiped for std::process::Command {
    fn spawn_piped(&mut self) -> Result<tokio::process::Child> {
        let command = std::mem::replace(self, Self::new("true"));
        let mut command = tokio::process::Command::from(command);
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
        Ok(command.stderr(std::process::Stdio::piped()).kill_on_drop(true).spawn()?)
    }
}
