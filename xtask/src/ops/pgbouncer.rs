//! `cargo xtask ops pgbouncer`: two nodes that reach PostgreSQL through `PgBouncer`, with `deploy/postgresql/pgbouncer.ini` as it is
//! shipped: only addresses, ports, paths, the mode and the way to sign in are replaced. The settings of the role come from
//! docs/operating.md.

use std::fmt::{self, Display};
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::ValueEnum;
use reqwest::Client;
use serde_json::{Value, json};
use service_testkit::ports;
use service_testkit::postgres::{Cluster, unprivileged_account};
use service_testkit::server::{fresh_database, refresh_body, signed_in};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::sleep;
use tokio_postgres::NoTls;

use super::load::{Load, Tally, UserTokens};
use super::nodes::{DrillDatabase, Installation};
use super::surroundings::{blocks, run_statements};
use super::{replace, report, skip};
use crate::tools::succeed_in_silence;
use crate::{root, say_error};

/// The suite with `PgBouncer` 1.24. That of Debian 12 is too old for prepared statements in transaction mode.
const SUITE: &str = "trixie";

const USERS: usize = 10;
const RATE_PER_NODE: u32 = 20;
const REVOCATIONS: usize = 10;
/// The longest that a revoked session may work at the other node.
const REVOKED: Duration = Duration::from_secs(1);
const AWAY: Duration = Duration::from_secs(5);
/// The longest that everything may take to be served again after `PgBouncer` is back.
const SERVED_AGAIN: Duration = Duration::from_secs(2);

const START_TIMEOUT: Duration = Duration::from_secs(10);
const GIVE_UP: Duration = Duration::from_secs(30);
const POLL_EVERY: Duration = Duration::from_millis(10);

#[derive(clap::Args)]
pub(crate) struct PgbouncerOptions {
    /// Only this mode
    #[arg(long, value_enum)]
    mode: Option<PoolMode>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PoolMode {
    Session,
    Transaction,
}

impl Display for PoolMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Session => "session",
            Self::Transaction => "transaction",
        })
    }
}

pub(super) async fn run(options: &PgbouncerOptions) -> Result<()> {
    let files = match install() {
        Ok(files) => files,
        Err(error) => return skip("pgbouncer", &format!("no PgBouncer from Debian {SUITE}: {error:#}")),
    };
    let mut modes = Vec::new();
    for mode in [PoolMode::Session, PoolMode::Transaction] {
        if options.mode.is_none_or(|only| only == mode) {
            modes.push(smoke(&files, mode).await.with_context(|| format!("in {mode} mode"))?);
        }
    }
    let within = |mode: &Value, name: &str, limit: Duration| {
        mode[name].as_f64().is_some_and(|seconds| seconds <= limit.as_secs_f64())
    };
    let passed = modes.iter().all(|mode| {
        within(mode, "revoked_seconds", REVOKED)
            && within(mode, "served_again_seconds", SERVED_AGAIN)
            && mode["token_checks_failed"] == 0
            && mode["signed_out"] == 0
    });
    report(&json!({ "drill": "pgbouncer", "modes": modes }), passed)
}

async fn smoke(files: &Path, mode: PoolMode) -> Result<Value> {
    say_error(&format!("PgBouncer in {mode} mode"));
    let cluster = Cluster::start_quiet()?;
    let name = fresh_database(&cluster).await?;
    let statements = blocks("xtask/src/ops/pgbouncer.rs")?.pop().context("the statements are missing")?;
    run_statements(&cluster.url("postgres"), &statements)?;
    let mut pgbouncer = Pgbouncer::start(files, mode, cluster.port()).await?;
    let database = DrillDatabase { url: cluster.service_url_at(pgbouncer.port, &name), ca_file: None };
    let installation = Installation::start(&database).await?;

    catch_replay(&installation).await?;
    let revoked = revoke(&installation).await?;
    let loads = start_loads(&installation).await?;
    sleep(AWAY).await;
    pgbouncer.stop().await?;
    sleep(AWAY).await;
    pgbouncer.resume().await?;
    let served = until_served(&installation).await?;
    sleep(AWAY).await;
    let mut tally = Tally::default();
    for load in loads {
        tally.add(load.stop().await?);
    }
    installation.command(&["admin", "audit", "verify"]).await?;
    let connections = count_connections(&cluster).await?;
    Ok(json!({
        "mode": mode.to_string(),
        "version": pgbouncer.version().await?,
        "revoked_seconds": revoked.as_secs_f64(),
        "away_seconds": AWAY.as_secs(),
        "served_again_seconds": served.as_secs_f64(),
        "token_checks": tally.reads,
        "token_checks_failed": tally.failures_of("read"),
        "refreshes": tally.refreshes,
        "refreshes_failed": tally.failures_of("refresh"),
        "signed_out": tally.signed_out,
        "postgresql_connections": connections,
    }))
}

/// A user signs in, uses a CLI token at the other node, and refreshes; then an old refresh token is presented again.
async fn catch_replay(installation: &Installation) -> Result<()> {
    let (here, there) = installation.nodes.first().zip(installation.nodes.last()).context("there is no node")?;
    let session = installation.sign_in_as("person@acme.test").await?;
    let token = here.create_cli_token(&session).await?;
    ensure!(there.accepts_token(&token.secret).await, "a CLI token does not work at the other node");
    let mut newest = session.clone();
    for node in [there, here] {
        let refreshed = signed_in(&node.http.post("/oauth/token", &refresh_body(&newest.refresh_token)).await?)?;
        newest = UserTokens { access_token: refreshed.access_token, refresh_token: refreshed.refresh_token };
    }
    let replayed = there.http.post("/oauth/token", &refresh_body(&session.refresh_token)).await?;
    ensure!(replayed.error() == "invalid_grant", "a replay got {} {}", replayed.status, replayed.text);
    let refused = here.http.post("/oauth/token", &refresh_body(&newest.refresh_token)).await?;
    ensure!(refused.error() == "invalid_grant", "a replayed session got {} {}", refused.status, refused.text);
    Ok(())
}

/// Revokes sessions at one node; returns how long the slowest still worked at the other one.
async fn revoke(installation: &Installation) -> Result<Duration> {
    let (here, there) = installation.nodes.first().zip(installation.nodes.last()).context("there is no node")?;
    let mut slowest = Duration::ZERO;
    for session in installation.sign_in(REVOCATIONS).await? {
        ensure!(there.accepts(&session).await, "a new token does not work at the other node");
        here.revoke(&session).await?;
        let began = Instant::now();
        while there.accepts(&session).await {
            ensure!(began.elapsed() < GIVE_UP, "a revoked session works for ever");
            sleep(POLL_EVERY).await;
        }
        slowest = slowest.max(began.elapsed());
    }
    Ok(slowest)
}

async fn start_loads(installation: &Installation) -> Result<Vec<Load>> {
    let mut loads = Vec::new();
    for node in &installation.nodes {
        let sessions = installation.sign_in(USERS).await?;
        loads.push(Load::start(&Client::new(), &node.http.url, sessions, RATE_PER_NODE));
        node.until_fresh().await?;
    }
    Ok(loads)
}

/// Waits until both nodes are ready and a user can sign in; returns how long that took.
async fn until_served(installation: &Installation) -> Result<Duration> {
    let back = Instant::now();
    for node in &installation.nodes {
        while !node.is_ready().await {
            ensure!(
                back.elapsed() < GIVE_UP,
                "a node is not ready after PgBouncer is back: {}",
                node.readiness().await
            );
            sleep(POLL_EVERY).await;
        }
    }
    installation.sign_in_as("person@acme.test").await?;
    Ok(back.elapsed())
}

/// How many connections nodes have at PostgreSQL, through `PgBouncer`.
async fn count_connections(cluster: &Cluster) -> Result<i64> {
    let (client, connection) = tokio_postgres::connect(&cluster.url("postgres"), NoTls).await?;
    tokio::spawn(connection);
    Ok(client.query_one("select count(*) from pg_stat_activity where usename = 'serviced'", &[]).await?.try_get(0)?)
}

/// A running `PgBouncer`, which is killed when dropped.
struct Pgbouncer {
    port: u16,
    directory: TempDir,
    files: PathBuf,
    process: Option<Child>,
}

impl Pgbouncer {
    async fn start(files: &Path, mode: PoolMode, postgres: u16) -> Result<Self> {
        let (port, directory) = (ports::free()?, tempfile::Builder::new().prefix("pgbouncer-").tempdir()?);
        let here = directory.path().to_str().context("the path is not UTF-8")?;
        // In session mode every connection of a node is one of PostgreSQL: two nodes × (16 + 3).
        let size = if mode == PoolMode::Session { "default_pool_size = 38" } else { "default_pool_size = 20" };
        let settings = replace(
            &fs::read_to_string(root().join("deploy/postgresql/pgbouncer.ini"))?,
            &[
                ("service = host=10.0.0.31 port=5432", &format!("* = host=127.0.0.1 port={postgres}")),
                ("listen_addr = 10.0.0.41", "listen_addr = 127.0.0.1\nunix_socket_dir ="),
                ("listen_port = 6432", &format!("listen_port = {port}")),
                ("auth_type = scram-sha-256", "auth_type = trust"),
                ("/etc/pgbouncer", here),
                ("pool_mode = transaction", &format!("pool_mode = {mode}")),
                ("default_pool_size = 20", size),
            ],
        )?;
        fs::write(directory.path().join("pgbouncer.ini"), settings)?;
        fs::write(directory.path().join("userlist.txt"), "\"serviced\" \"\"\n")?;
        if let Some((user, group)) = unprivileged_account()? {
            for file in ["", "pgbouncer.ini", "userlist.txt"] {
                chown(directory.path().join(file), Some(user), Some(group))?;
            }
        }
        let mut pgbouncer = Self { port, directory, files: files.to_owned(), process: None };
        pgbouncer.resume().await?;
        Ok(pgbouncer)
    }

    /// Starts the process, and waits until it accepts connections.
    async fn resume(&mut self) -> Result<()> {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.directory.path().join("log"))?;
        let mut command = self.command()?;
        command.arg("--quiet").arg(self.directory.path().join("pgbouncer.ini")).stdin(Stdio::null());
        let mut process = command.stdout(Stdio::null()).stderr(log).kill_on_drop(true).spawn()?;
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
            if process.try_wait()?.is_some() || began.elapsed() > START_TIMEOUT {
                bail!("PgBouncer does not start:\n{}", fs::read_to_string(self.directory.path().join("log"))?);
            }
            sleep(POLL_EVERY).await;
        }
        self.process = Some(process);
        Ok(())
    }

    /// Ends the process at once, with all connections.
    async fn stop(&mut self) -> Result<()> {
        Ok(self.process.take().context("PgBouncer does not run")?.kill().await?)
    }

    async fn version(&self) -> Result<String> {
        let said = self.command()?.arg("--version").output().await?.stdout;
        Ok(String::from_utf8_lossy(&said).lines().next().unwrap_or_default().to_owned())
    }

    /// The program, with the libraries beside it, as a user who is not root.
    fn command(&self) -> Result<Command> {
        let libraries = self.files.join("usr/lib/x86_64-linux-gnu");
        let loader = self.files.join("usr/lib64/ld-linux-x86-64.so.2");
        let mut command = Command::new(&loader);
        if let Some((user, group)) = unprivileged_account()? {
            command = Command::new("setpriv");
            command.args([format!("--reuid={user}"), format!("--regid={group}")]).arg("--clear-groups").arg(loader);
        }
        command.arg("--library-path").arg(libraries).arg(self.files.join("usr/sbin/pgbouncer"));
        Ok(command)
    }
}

/// Unpacks the package and what it depends on, once; returns the folder.
fn install() -> Result<PathBuf> {
    let tools = root().canonicalize()?.join("target/tools");
    let (files, unfinished) = (tools.join(format!("pgbouncer-{SUITE}")), tools.join("pgbouncer-unfinished"));
    if !files.exists() {
        say_error("Packages from Debian …");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        fs::create_dir_all(&tools)?;
        let mut mmdebstrap = std::process::Command::new("mmdebstrap");
        mmdebstrap.args(["--quiet", "--variant=extract", "--include=pgbouncer", SUITE]).arg(&unfinished);
        succeed_in_silence(&mut mmdebstrap).context("mmdebstrap: `.ci/install drills` installs it")?;
        fs::rename(unfinished, &files)?;
    }
    Ok(files)
}
