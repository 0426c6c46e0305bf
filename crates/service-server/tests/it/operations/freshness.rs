//! How long a node accepts tokens without its database, and how soon it serves everything again.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use service_testkit::{
    postgres::{Cluster, Stop},
    process::Process,
    server::{Setup, TestServer, fresh_database, otp_exchange, request_code, signed_in},
};

/// The longest outage in which no token check fails: 30 seconds, without the age of the last heartbeat, and without the
/// time that the database takes to start.
const BRIDGED: Duration = Duration::from_secs(28);
const SERVED_AGAIN: Duration = Duration::from_secs(1);

/// A node on a database of its own, and a token that it has checked before.
struct Node {
    cluster: Cluster,
    process: Process,
    token: String,
}

impl Node {
    async fn start(server: &TestServer, changes: &[(&str, &str)]) -> Result<Self> {
        let cluster = Cluster::start()?;
        let database = fresh_database(&cluster).await?;
        let mut settings = server.settings.clone();
        settings.set("database.url", &cluster.service_url(&database));
        settings.set("database.deadline_seconds", "2");
        for (key, value) in changes {
            settings.set(key, value);
        }
        let process = Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), &settings, &server.leaks)?;
        let (otp_id, code) = request_code(&process.http, &server.mailbox, &server.leaks, "ann@acme.test").await?;
        let response = process.http.post("/oauth/token", &otp_exchange(&otp_id, &code, "read")).await?;
        let node = Self { cluster, process, token: signed_in(&response)?.access_token };
        ensure!(node.whoami().await? == 200, "a new token does not work");
        Ok(node)
    }

    async fn whoami(&self) -> Result<u16> {
        Ok(self.process.http.get("/v1/whoami", Some(&self.token)).await?.status.as_u16())
    }

    async fn readyz(&self) -> Result<u16> {
        Ok(self.process.ops.get("/readyz", None).await?.status.as_u16())
    }

    /// Asks until `until`; the first status that is not 200.
    async fn check_tokens(&self, until: Instant) -> Result<()> {
        let mut asked = 0;
        while Instant::now() < until {
            let status = self.whoami().await?;
            ensure!(status == 200, "a token check was {status}, {:?} before the end", until - Instant::now());
            asked += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        ensure!(asked > 10, "only {asked} token checks");
        Ok(())
    }

    /// Starts the database again; everything is served soon.
    async fn check_recovers(&self) -> Result<()> {
        self.cluster.resume()?;
        let back = Instant::now();
        // Not only tokens are checked: the database answers.
        while self.process.ops.get("/readyz", None).await?.text != "ready\n" || self.whoami().await? != 200 {
            ensure!(back.elapsed() < SERVED_AGAIN, "not served {:?} after the database was back", back.elapsed());
        }
        Ok(())
    }
}

#[test]
fn no_token_check_fails_in_an_outage_of_28_seconds_nor_after_it_op_01() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        // As seldom as can be set: the time that tokens are accepted does not depend on it.
        let node = Node::start(server, &[("keys.refresh_every_seconds", "29")]).await?;
        let stopped = Instant::now();
        node.cluster.stop(Stop::Fast)?;
        node.check_tokens(stopped + BRIDGED).await?;
        assert_eq!(node.readyz().await?, 200, "not ready, although tokens are checked");
        node.cluster.resume()?;
        node.check_tokens(Instant::now() + Duration::from_secs(4)).await?;
        assert_eq!(node.readyz().await?, 200);
        Ok(())
    })
}

#[test]
fn after_thirty_seconds_without_a_database_no_token_is_accepted_until_it_is_back_op_01() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let node = Node::start(server, &[("keys.refresh_every_seconds", "29")]).await?;
        let started = Instant::now();
        while last_success(&node, "revocations").await.is_err() {
            ensure!(started.elapsed() < Duration::from_secs(5), "the node does not read revocations");
        }
        let stopped = Instant::now();
        node.cluster.stop(Stop::Immediate)?;
        let last_read = last_success(&node, "revocations").await?;
        while node.whoami().await? == 200 {
            ensure!(stopped.elapsed() < Duration::from_secs(31), "a token is accepted for ever");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        println!("accepted for {:?}", stopped.elapsed());
        // The thirty seconds begin when the node last read revocations, which may be before the outage.
        let since = server.now().as_duration().as_secs_f64() - last_read;
        ensure!((29.0..31.0).contains(&since), "tokens were accepted until {since} s after the last read");
        assert_eq!((node.whoami().await?, node.readyz().await?), (503, 503));
        node.check_recovers().await
    })
}

/// When a background task last succeeded, by the node's clock.
async fn last_success(node: &Node, task: &str) -> Result<f64> {
    let metrics = node.process.ops.get("/metrics", None).await?.text;
    let name = format!("service_task_last_success_timestamp_seconds{{task=\"{task}\"}} ");
    Ok(metrics.lines().find_map(|line| line.strip_prefix(&name)).context("no such task")?.parse()?)
}

#[test]
fn signing_keys_are_read_at_once_when_the_database_is_back_op_01() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let node = Node::start(server, &[("keys.refresh_every_seconds", "29")]).await?;
        node.cluster.stop(Stop::Fast)?;
        let failed = Instant::now();
        // The feed must have noticed, not only this test.
        while !String::from_utf8_lossy(&node.process.log()).contains("Could not read the revocations") {
            ensure!(failed.elapsed() < Duration::from_secs(5), "the node does not notice");
            tokio::task::yield_now().await;
        }
        node.check_recovers().await?;
        let back = Instant::now();
        while last_success(&node, "signing_keys").await.is_err() {
            ensure!(back.elapsed() < SERVED_AGAIN, "the keys were not read again");
        }
        Ok(())
    })
}
