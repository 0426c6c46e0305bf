//! SIGHUP: a node takes over new secrets, certificates and a new log filter, and goes on whatever it finds.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use service_testkit::{
    postgres::Cluster,
    process::{Process, command},
    server::{Setup, TestServer, fresh_database},
};
use tempfile::TempDir;
use tokio_postgres::Client;

const SOON: Duration = Duration::from_secs(10);

/// A node whose database asks for a password, which is in a file.
struct Node {
    process: Process,
    directory: TempDir,
    url: String,
    operator: Client,
    _cluster: Cluster,
}

impl Node {
    async fn start(server: &TestServer) -> Result<Self> {
        let cluster = Cluster::start()?;
        let database = fresh_database(&cluster).await?;
        let rules = "host all service all trust\nhost all serviced all scram-sha-256\n";
        fs::write(cluster.directory().join("data/pg_hba.conf"), rules)?;
        let operator = crate::support::failover::connect(&cluster, &database).await?;
        operator.batch_execute("alter role serviced password 'first-password'; select pg_reload_conf()").await?;
        for password in ["first-password", "second-password"] {
            server.leaks.register("password", password);
        }
        let (directory, url) = (tempfile::tempdir()?, cluster.service_url(&database));
        let place = |name: &str| directory.path().join(name);
        fs::write(place("url"), url.replace("serviced@", "serviced:first-password@"))?;
        fs::write(place("root-keys"), server.settings.get("secrets.root_keys").unwrap_or_default())?;
        fs::write(place("serviced.toml"), "[log]\nfilter = \"warn,serviced=info\"\n")?;
        let binary = Path::new(env!("CARGO_BIN_EXE_serviced"));
        let mut run = command(binary, &server.settings, &format!("run --config {}", place("serviced.toml").display()));
        run.env_remove("SERVICED_DATABASE_URL").env("SERVICED_DATABASE_URL_FILE", place("url"));
        run.env_remove("SERVICED_SECRETS_ROOT_KEYS").env("SERVICED_SECRETS_ROOT_KEYS_FILE", place("root-keys"));
        let process = Process::wait_until_ready(run, &server.leaks)?;
        Ok(Self { process, directory, url, operator, _cluster: cluster })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&self.process.log()).into_owned()
    }

    /// Sends SIGHUP, and waits until the log has one more line like this.
    async fn hang_up(&self, expected: &str) -> Result<()> {
        let (before, told) = (self.log().matches(expected).count(), Instant::now());
        ensure!(Command::new("kill").args(["-HUP", &self.process.pid().to_string()]).status()?.success());
        while self.log().matches(expected).count() <= before {
            ensure!(told.elapsed() < SOON, "the log does not say {expected:?}:\n{}", self.log());
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Whether the node is ready on connections that it makes now.
    async fn is_ready_again(&self) -> Result<bool> {
        let others = "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'serviced'";
        self.operator.query(others, &[]).await?;
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(3) {
            if self.process.ops.get("/readyz", None).await?.text == "ready\n" {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[test]
fn a_node_takes_over_a_new_password_without_a_restart_op_05() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let mut node = Node::start(server).await?;
        node.operator.batch_execute("alter role serviced password 'second-password'").await?;
        ensure!(!node.is_ready_again().await?, "the old password still works");
        // A file that is half written changes nothing.
        fs::write(node.file("url"), "postgres://")?;
        node.hang_up("Nothing was reloaded").await?;
        fs::write(node.file("url"), node.url.replace("serviced@", "serviced:second-password@"))?;
        node.hang_up(r#""changed":"database.url"}"#).await?;
        ensure!(node.is_ready_again().await?, "the new password is not used: {}", node.log());
        server.leaks.assert_clean("log", &node.process.log());
        assert_eq!(node.process.terminate()?, Some(0));
        Ok(())
    })
}

#[test]
fn a_node_takes_over_the_log_filter_and_says_what_needs_a_restart_op_05() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let mut node = Node::start(server).await?;
        node.process.http.get("/v1/whoami", None).await?;
        assert_eq!(node.log().matches(r#""message":"Request""#).count(), 0);
        fs::write(node.file("serviced.toml"), "[log]\nfilter = \"info\"\n[http]\nin_flight = 7\n")?;
        fs::write(
            node.file("root-keys"),
            format!("{},2:{}", fs::read_to_string(node.file("root-keys"))?, other_key()),
        )?;
        node.hang_up(r#""changed":"http.in_flight, secrets.root_keys"}"#).await?;
        ensure!(
            node.log().contains(r#""changed":"log.filter"}"#) && node.log().contains("need a restart"),
            "{}",
            node.log()
        );
        node.process.http.get("/v1/whoami", None).await?;
        let asked = Instant::now();
        while node.log().matches(r#""message":"Request""#).count() != 1 {
            ensure!(asked.elapsed() < SOON, "the filter is not used: {}", node.log());
            tokio::task::yield_now().await;
        }
        // It says so again, until there was a restart.
        node.hang_up(r#""changed":"http.in_flight, secrets.root_keys"}"#).await?;
        for broken in ["[log", "[log]\nfilter = \"service=loud\"\n", "[frobnication]\nlevel = 1\n"] {
            fs::write(node.file("serviced.toml"), broken)?;
            node.hang_up("Nothing was reloaded").await?;
        }
        assert_eq!(node.process.http.get("/v1/whoami", None).await?.status, 401);
        assert_eq!(node.process.ops.get("/readyz", None).await?.status, 200);
        assert_eq!(node.process.terminate()?, Some(0));
        Ok(())
    })
}

fn other_key() -> String {
    base64::Engine::encode(&base64::prelude::BASE64_STANDARD, b"a root key of thirty-two letters")
}
