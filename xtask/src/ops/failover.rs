//! `cargo xtask ops failover`: takes the primary away from two nodes behind a proxy while users work, and counts what is lost.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::containers::is_root;
use super::load::{Load, UserTokens};
use super::nodes::Installation;
use super::patroni::{self, PatroniCluster};
use super::proxies::{Product, Proxy};
use super::{namespaces, report, skip};
use crate::say_error;

/// How many users share the requests.
const USERS: usize = 30;
/// How many users sign out just before the primary is lost.
const SIGNED_OUT: usize = 10;

const SETTLED: Duration = Duration::from_secs(3);
const ASK_EVERY: Duration = Duration::from_millis(50);
const GIVE_UP: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub(crate) struct FailoverOptions {
    /// Stop the processes of the primary, so that connections to it hang, instead of killing them
    #[arg(long)]
    freeze: bool,
    /// Drop every packet from and to the primary, in a network of the drill's own. Its processes go on
    #[arg(long, conflicts_with = "freeze")]
    partition: bool,
    /// Let Patroni move the primary, instead of killing it
    #[arg(long, conflicts_with_all = ["freeze", "partition"])]
    switchover: bool,
    /// How many times
    #[arg(long, default_value_t = 5)]
    times: usize,
    /// Requests per second, half of them refreshes
    #[arg(long, default_value_t = 150)]
    rate: u32,
    /// How many seconds it may take until refreshes succeed again: by default 22, 25 if frozen or cut off, 3 if moved
    #[arg(long)]
    within: Option<u64>,
    /// Runs in namespaces of its own already, with this folder for its temporary files
    #[arg(long, hide = true)]
    inside: Option<PathBuf>,
}

/// How the primary is lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    Killed,
    Frozen,
    CutOff,
    Moved,
}

impl FailoverOptions {
    const fn loss(&self) -> Loss {
        match (self.switchover, self.freeze, self.partition) {
            (true, _, _) => Loss::Moved,
            (_, true, _) => Loss::Frozen,
            (_, _, true) => Loss::CutOff,
            _ => Loss::Killed,
        }
    }

    /// The longest until refreshes succeed again. Patroni notices a lost primary after its `ttl`, of at least 20 seconds.
    fn limit(&self) -> Duration {
        let by_default = match self.loss() {
            Loss::Moved => 3,
            Loss::Frozen | Loss::CutOff => 25,
            Loss::Killed => 22,
        };
        Duration::from_secs(self.within.unwrap_or(by_default))
    }

    const fn name(&self) -> &'static str {
        match self.loss() {
            Loss::Moved => "failover --switchover",
            Loss::Frozen => "failover --freeze",
            Loss::CutOff => "failover --partition",
            Loss::Killed => "failover",
        }
    }

    /// Runs the drill in a network of its own, whose packets it may drop.
    fn run_inside(&self) -> Result<()> {
        if !is_root()? {
            return skip(self.name(), "only root can make the network of the drill");
        }
        let folder = tempfile::Builder::new().prefix("drill-").tempdir()?;
        // PostgreSQL runs as another user.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let path = folder.path().to_str().context("a path is not UTF-8")?;
        let (times, rate) = (self.times.to_string(), self.rate.to_string());
        let within = self.limit().as_secs().to_string();
        let arguments = ["ops", "failover", "--partition", "--times", &times, "--rate", &rate, "--within", &within];
        namespaces::run_inside(folder.path(), &[&arguments[..], &["--inside", path]].concat())
    }
}

pub(super) async fn run(options: &FailoverOptions) -> Result<()> {
    if options.inside.is_none() {
        patroni::install()?;
    }
    if options.loss() == Loss::CutOff && options.inside.is_none() {
        return options.run_inside();
    }
    say_error("Patroni starts three PostgreSQL servers");
    let mut cluster = PatroniCluster::start().await?;
    let mut installation = Installation::prepare(&cluster.create_database().await?).await?;
    installation.command(&["migrate"]).await?;
    for node in &mut installation.nodes {
        node.start().await?;
    }
    let proxy = Proxy::start(Product::Haproxy, &installation).await?;
    let mut failovers = Vec::new();
    for time in 0..options.times {
        say_error(&format!("Failover {} of {}", time + 1, options.times));
        failovers.push(one_failover(&mut cluster, &mut installation, &proxy, options).await?);
    }
    let limit = options.limit().as_secs_f64();
    let passed = failovers.iter().all(|failover| {
        let nothing = ["token_checks_failed", "signed_out", "rotations_lost", "revocations_lost", "nodes_exited"];
        nothing.iter().all(|figure| failover[figure] == 0)
            && failover["writes_back_seconds"].as_f64().is_some_and(|took| took <= limit)
    });
    report(&json!({ "drill": options.name(), "rate": options.rate, "failovers": failovers }), passed)
}

async fn one_failover(
    cluster: &mut PatroniCluster,
    installation: &mut Installation,
    proxy: &Proxy,
    options: &FailoverOptions,
) -> Result<Value> {
    let probe = installation.sign_in(1).await?.pop().context("no user is signed in")?;
    let revoked = installation.sign_in(SIGNED_OUT).await?;
    let users = installation.sign_in(USERS).await?;
    // Every node has seen every user: it reads a user's email address, which whoami shows, once.
    for node in &installation.nodes {
        for user in &users {
            ensure!(node.accepts(user).await, "a new token does not work");
        }
    }
    let load = Load::start(&proxy.client, &proxy.url, users, options.rate);
    let forwarded = fast_forwarded(installation).await?;
    sleep(SETTLED).await;
    for session in &revoked {
        installation.nodes.first().context("there is no node")?.revoke(session).await?;
    }
    let leader = cluster.leader().await.context("there is no primary")?;
    let began = Instant::now();
    match options.loss() {
        Loss::Killed => cluster.kill(leader).await?,
        Loss::Frozen => cluster.freeze(leader).await?,
        Loss::CutOff => cluster.cut_off(leader).await?,
        Loss::Moved => cluster.switch_over(leader).await?,
    }
    let back = until_written(cluster, installation, &probe, Lost { leader, began }).await?;
    sleep(SETTLED).await;
    if options.loss() == Loss::CutOff {
        // Users continue while the former primary comes back. It must not take over again: what was written since would be lost.
        cluster.reconnect(leader).await?;
        cluster.until_complete().await?;
        ensure!(cluster.leader().await != Some(leader), "the former primary took over again");
        sleep(SETTLED).await;
    }
    let tally = load.stop().await?;
    let measured = json!({
        "primary": format!("db{leader}"),
        "token_checks": tally.reads,
        "token_checks_failed": tally.failures_of("read"),
        "refreshes": tally.refreshes,
        "refreshes_failed": tally.failures_of("refresh"),
        "writes_back_seconds": back.as_secs_f64(),
        "signed_out": tally.signed_out,
        "rotations_lost": fast_forwarded(installation).await? - forwarded,
        "revocations": revoked.len(),
        "revocations_lost": still_accepted(installation, &revoked).await?,
        "nodes_exited": exited(installation)?,
        "failures": tally.failures,
    });
    match options.loss() {
        Loss::Killed => cluster.restart(leader)?,
        Loss::Frozen => {
            // It must not continue: some versions of Patroni would let it take the lock back, and what was written since is lost.
            cluster.kill(leader).await?;
            cluster.restart(leader)?;
        }
        Loss::CutOff | Loss::Moved => {}
    }
    cluster.until_complete().await?;
    Ok(measured)
}

/// The primary that was lost, and when.
struct Lost {
    leader: usize,
    began: Instant,
}

/// Refreshes a session at both nodes until that succeeds on another primary; returns how long after the loss it did.
async fn until_written(
    cluster: &PatroniCluster,
    installation: &Installation,
    probe: &UserTokens,
    lost: Lost,
) -> Result<Duration> {
    let mut back = None;
    loop {
        let mut written = true;
        for node in &installation.nodes {
            written &= node.refreshes(probe).await.unwrap_or(false);
        }
        // It counts from the last failure, because the lost primary may have finished what it had begun.
        back = if written { back.or_else(|| Some(lost.began.elapsed())) } else { None };
        let moved = cluster.leader().await.is_some_and(|leader| leader != lost.leader);
        if let Some(back) = back.filter(|_| moved) {
            return Ok(back);
        }
        ensure!(lost.began.elapsed() < GIVE_UP, "refreshes do not succeed again");
        sleep(ASK_EVERY).await;
    }
}

/// How many rotations the database lost: their tokens are newer than what it knows.
async fn fast_forwarded(installation: &Installation) -> Result<u64> {
    let mut sum = 0.0;
    for node in &installation.nodes {
        sum += node.metric("service_refreshes_total{outcome=\"fast_forwarded\"}").await?;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of requests")]
    Ok(sum as u64)
}

/// How many sessions that were signed out a node accepts.
async fn still_accepted(installation: &Installation, revoked: &[UserTokens]) -> Result<usize> {
    let mut accepted = 0;
    for session in revoked {
        let mut lost = false;
        for node in &installation.nodes {
            let refreshed = node.refreshes(session).await;
            lost |= node.accepts(session).await || refreshed.is_ok_and(|refreshed| refreshed);
        }
        accepted += usize::from(lost);
    }
    Ok(accepted)
}

fn exited(installation: &mut Installation) -> Result<usize> {
    let mut exited = 0;
    for node in &mut installation.nodes {
        exited += usize::from(!node.is_running()?);
    }
    Ok(exited)
}
