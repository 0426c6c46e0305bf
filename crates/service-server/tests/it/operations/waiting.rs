//! A node that starts before its database: it waits, says so, and can be told to stop.

use std::{
    net::Ipv4Addr,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use service_testkit::{
    ports,
    postgres::{Cluster, Stop},
    process::{Process, command},
    response::TestClient,
    server::{Setup, TestServer, fresh_database},
    settings::Settings,
};

const SERVICED: &str = env!("CARGO_BIN_EXE_serviced");
const SOON: Duration = Duration::from_secs(10);

fn run(test: impl AsyncFnOnce(&TestServer) -> Result<()>) -> Result<()> {
    Setup::default().on_system_clock().run(test)
}

/// The settings of a node whose database is away, and clients of both its listeners.
fn node_settings(server: &TestServer, url: &str) -> Result<(Settings, TestClient, TestClient)> {
    let mut settings = server.settings.clone();
    settings.set("database.url", url);
    let mut client = |key: &str| {
        let address = format!("{}:{}", Ipv4Addr::LOCALHOST, ports::free()?);
        settings.set(key, &address);
        TestClient::new(format!("http://{address}"), server.leaks.clone())
    };
    let (http, ops) = (client("http.listen")?, client("http.ops_listen")?);
    Ok((settings, http, ops))
}

/// Waits until the node says that it is starting.
async fn until_starting(ops: &TestClient) -> Result<()> {
    let began = Instant::now();
    loop {
        if let Ok(response) = ops.get("/readyz", None).await {
            ensure!(response.status == 503 && response.text.contains("starting"), "{}", response.text);
            return Ok(());
        }
        ensure!(began.elapsed() < SOON, "the node does not start");
    }
}

#[test]
fn a_node_waits_for_its_database_and_is_ready_soon_after_it_op_06() -> Result<()> {
    run(async |server| {
        let cluster = Cluster::start()?;
        let database = fresh_database(&cluster).await?;
        cluster.stop(Stop::Fast)?;
        server.leaks.register("password", "canary-password");
        let url = cluster.service_url(&database).replace("serviced@", "serviced:canary-password@");
        let (settings, http, ops) = node_settings(server, &url)?;
        let (leaks, started) = (server.leaks.clone(), Instant::now());
        let node = tokio::task::spawn_blocking(move || Process::start(Path::new(SERVICED), &settings, &leaks));
        until_starting(&ops).await?;
        // Longer than it looks for the database once.
        while started.elapsed() < Duration::from_secs(4) {
            ensure!(!node.is_finished(), "it does not wait");
            assert_eq!(ops.get("/readyz", None).await?.status, 503);
            assert_eq!(ops.get("/healthz", None).await?.status, 200);
            assert_eq!(ops.get("/metrics", None).await?.status, 200);
            ensure!(http.get("/v1/whoami", None).await.is_err(), "the public listener is open");
        }
        cluster.resume()?;
        let back = Instant::now();
        while ops.get("/readyz", None).await?.status != 200 {
            ensure!(back.elapsed() < Duration::from_secs(2), "not ready {:?} after the database", back.elapsed());
        }
        let mut node = node.await??;
        assert_eq!(http.get("/v1/whoami", None).await?.status, 401);
        let log = String::from_utf8(node.log())?;
        // Once for each reason: it may also have seen the database starting up.
        let refused = "this node waits for it\",\"error\":\"cannot connect to database.url: Connection refused";
        assert_eq!(log.matches(refused).count(), 1, "{log}");
        assert!(log.matches("The database is not available; this node waits for it").count() <= 2, "{log}");
        server.leaks.assert_clean("log", log.as_bytes());
        assert_eq!(node.terminate()?, Some(0));
        Ok(())
    })
}

#[test]
fn a_node_that_waits_for_its_database_stops_when_it_is_told_to_op_06_op_02() -> Result<()> {
    run(async |server| {
        for url in ["postgres://serviced@127.0.0.1:1/service", "postgres://serviced@nowhere.invalid/service"] {
            let (mut settings, _, ops) = node_settings(server, url)?;
            settings.set("http.lame_duck_seconds", "600");
            let mut child =
                command(Path::new(SERVICED), &settings, "run").stderr(std::process::Stdio::null()).spawn()?;
            until_starting(&ops).await?;
            let told = Instant::now();
            let kill = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status()?;
            ensure!(kill.success());
            assert_eq!(child.wait()?.code(), Some(0), "{url}");
            ensure!(told.elapsed() < Duration::from_secs(3), "it took {:?}", told.elapsed());
        }
        Ok(())
    })
}

#[test]
fn a_wrong_password_or_database_ends_a_start_at_once_op_06() -> Result<()> {
    run(async |server| {
        let cluster = Cluster::start()?;
        let database = fresh_database(&cluster).await?;
        let rules = "host all service all trust\nhost all serviced all scram-sha-256\n";
        std::fs::write(cluster.directory().join("data/pg_hba.conf"), rules)?;
        let operator = crate::support::failover::connect(&cluster, &database).await?;
        operator.batch_execute("alter role serviced password 'right'; select pg_reload_conf()").await?;
        server.leaks.register("password", "canary-password");
        let wrong = cluster.service_url(&database).replace("serviced@", "serviced:canary-password@");
        let absent = server.cluster.service_url("nothing_here");
        for (url, expected) in [(wrong, "password authentication failed"), (absent, "does not exist")] {
            let (settings, ..) = node_settings(server, &url)?;
            let output = command(Path::new(SERVICED), &settings, "run").output()?;
            let text = String::from_utf8([output.stdout, output.stderr].concat())?;
            assert_eq!(output.status.code(), Some(1), "{text}");
            ensure!(text.contains("cannot connect to database.url") && text.contains(expected), "{text}");
            server.leaks.assert_clean("output", text.as_bytes());
        }
        Ok(())
    })
}
