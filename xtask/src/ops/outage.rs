//! `cargo xtask ops outage`: takes PostgreSQL away from two nodes, while users work or before the nodes start.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use service_testkit::postgres::{Cluster, Stop};
use tokio::time::sleep;

use super::nodes::{DrillDatabase, Installation};
use super::report;
use crate::say_error;

/// The longest that everything may take to be served again after the database is back.
const SERVED_AGAIN: Duration = Duration::from_secs(1);

/// The longest that a node may take to be ready after the database that it waits for is there.
const READY: Duration = Duration::from_secs(2);

const CHECK_EVERY: Duration = Duration::from_millis(20);
const GIVE_UP: Duration = Duration::from_secs(30);

#[derive(clap::Args)]
pub(crate) struct OutageOptions {
    /// How long PostgreSQL is away, once stopped and once killed
    #[arg(long, default_value_t = 28)]
    seconds: u64,
    /// Start the nodes first, and PostgreSQL this many seconds later
    #[arg(long, conflicts_with = "seconds")]
    at_start: Option<u64>,
}

pub(super) async fn run(options: &OutageOptions) -> Result<()> {
    match options.at_start {
        Some(seconds) => before_start(Duration::from_secs(seconds)).await,
        None => while_running(Duration::from_secs(options.seconds)).await,
    }
}

async fn while_running(length: Duration) -> Result<()> {
    let cluster = Cluster::start_quiet()?;
    let installation = Installation::start(&DrillDatabase::create(&cluster).await?).await?;
    let mut outages = Vec::new();
    for how in ["stopped", "killed"] {
        say_error(&format!("PostgreSQL is {how} for {} s", length.as_secs()));
        outages.push(one_outage(&cluster, &installation, how, length).await?);
    }
    let limit = SERVED_AGAIN.as_secs_f64();
    let passed = outages.iter().all(|outage| {
        outage["token_checks_failed"] == 0 && outage["served_again_seconds"].as_f64().is_some_and(|took| took <= limit)
    });
    report(&json!({ "drill": "outage", "seconds": length.as_secs(), "outages": outages }), passed)
}

async fn one_outage(cluster: &Cluster, installation: &Installation, how: &str, length: Duration) -> Result<Value> {
    let session = installation.sign_in(1).await?.pop().context("no user is signed in")?;
    for node in &installation.nodes {
        ensure!(node.accepts(&session).await, "a new token does not work");
        // Without it, the thirty seconds for which tokens are accepted would count from before the last outage.
        node.until_fresh().await?;
    }
    match how {
        "killed" => cluster.kill()?,
        _ => cluster.stop(Stop::Fast)?,
    }
    let (away, mut checks, mut failed) = (Instant::now(), 0_u64, 0_u64);
    while away.elapsed() < length {
        for node in &installation.nodes {
            checks += 1;
            failed += u64::from(!node.accepts(&session).await);
        }
        sleep(CHECK_EVERY).await;
    }
    if how == "killed" {
        // What a killed postmaster has left behind is cleared away.
        cluster.stop(Stop::Immediate)?;
    }
    cluster.resume()?;
    let back = Instant::now();
    // Served again: every node is ready and checks tokens, and a session is refreshed.
    let mut refreshed = false;
    let served = loop {
        let mut ready = true;
        for node in &installation.nodes {
            checks += 1;
            let accepted = node.accepts(&session).await;
            failed += u64::from(!accepted);
            ready &= accepted && node.is_ready().await;
            refreshed = refreshed || node.refreshes(&session).await?;
        }
        if ready && refreshed {
            break back.elapsed();
        }
        ensure!(back.elapsed() < GIVE_UP, "the nodes do not serve again");
    };
    Ok(json!({
        "how": how,
        "token_checks": checks,
        "token_checks_failed": failed,
        "served_again_seconds": served.as_secs_f64(),
    }))
}

async fn before_start(length: Duration) -> Result<()> {
    let cluster = Cluster::start_quiet()?;
    let mut installation = Installation::prepare(&DrillDatabase::create(&cluster).await?).await?;
    cluster.stop(Stop::Fast)?;
    for node in &mut installation.nodes {
        node.spawn()?;
    }
    say_error(&format!("the nodes wait for PostgreSQL for {} s", length.as_secs()));
    sleep(length).await;
    cluster.resume()?;
    let back = Instant::now();
    for node in &mut installation.nodes {
        node.until_ready().await?;
    }
    let ready = back.elapsed();
    let measured =
        json!({ "drill": "outage", "at_start_seconds": length.as_secs(), "ready_seconds": ready.as_secs_f64() });
    report(&measured, ready <= READY)
}
