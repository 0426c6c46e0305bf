//! Background tasks: a node does not go on without one, and says when each last succeeded.

use std::{
    future::{pending, ready},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use service_server::{server::Server, tasks::supervisor::TaskEnded};
use service_testkit::{
    log::Log,
    server::{TestServer, config, with_server},
};

/// Another node on the same database.
async fn start(server: &TestServer) -> Result<Server> {
    Server::start(config(&server.settings)?, server.app.clock.clone()).await
}

#[test]
fn a_task_that_panics_or_ends_stops_the_node() -> Result<()> {
    with_server(async |server| {
        for panics in [true, false] {
            let log = Log::default();
            let logging = tracing::subscriber::set_default(log.subscriber());
            let mut running = start(server).await?;
            let (address, app) = (running.address, running.app.clone());
            running.spawn("faulty", async move |_, _| {
                tokio::time::sleep(Duration::from_millis(50)).await;
                assert!(!panics, "a defect of this task");
            });
            // `serviced run` waits in this function, and exits with the error that it returns.
            let ended = tokio::time::timeout(Duration::from_secs(20), running.run_until(pending())).await;
            drop(logging);
            let ended = ended.context("the node goes on")?.err().context("the node stopped without an error")?;
            assert_eq!(ended, TaskEnded { name: "faulty", panicked: panics });
            assert!(ended.to_string().contains("faulty"), "{ended}");
            assert!(app.stop.is_cancelled() && tokio::net::TcpStream::connect(address).await.is_err());
            let logged = String::from_utf8(log.text())?;
            let line = logged.lines().find(|line| line.contains("A background task ended")).context("not logged")?;
            assert!(line.contains("ERROR") && line.contains("task=\"faulty\""), "{line}");
        }
        Ok(())
    })
}

#[test]
fn a_node_that_is_told_to_stop_ends_without_an_error() -> Result<()> {
    with_server(async |server| {
        let mut running = start(server).await?;
        running.spawn("patient", async move |app, _| app.stop.cancelled().await);
        assert_eq!(running.run_until(ready(())).await, Ok(()));
        Ok(())
    })
}

#[test]
fn every_periodic_task_says_when_it_last_succeeded() -> Result<()> {
    with_server(async |server| {
        let began = Instant::now();
        let now = server.now().as_second().to_string();
        let periodic =
            ["revocations", "mailer", "heartbeat", "token_uses", "audit_seals", "cleanup", "internal_listener"];
        loop {
            let metrics = server.ops.get("/metrics", None).await?.text;
            let succeeded_at = |task: &str| {
                let start = format!("service_task_last_success_timestamp_seconds{{task=\"{task}\"}} ");
                metrics.lines().find_map(|line| line.strip_prefix(&start))
            };
            let missing: Vec<_> = periodic.iter().filter(|task| succeeded_at(task).is_none()).collect();
            if missing.is_empty() {
                let is_now = |task: &&str| succeeded_at(task).is_some_and(|at| at.split('.').next() == Some(&now));
                assert!(periodic.iter().all(is_now), "{metrics}");
                return Ok(());
            }
            ensure!(began.elapsed() < Duration::from_secs(30), "never succeeded: {missing:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    })
}
