//! `cargo xtask ops alerts`: Prometheus scrapes two nodes with the files of `deploy/monitoring`, while nodes, users and the database do
//! what alerts are for. Exactly the alerts that belong to it fire, and they clear.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use reqwest::Client;
use serde_json::{Value, json};
use service_testkit::postgres::{Cluster, Stop};
use service_testkit::server::refresh_body;
use tokio::time::sleep;

use super::load::Load;
use super::nodes::{DrillDatabase, Installation};
use super::prometheus::Prometheus;
use super::report;
use crate::say_error;

const USERS: usize = 10;
const RATE_PER_NODE: u32 = 20;
/// How long no alert may fire before the first fault.
const HEALTHY: Duration = Duration::from_secs(30);
/// The longest until all alerts of a fault fire.
const FIRE_TIMEOUT: Duration = Duration::from_secs(120);
/// The longest until they have cleared. The slowest looks back six hours, which are six minutes here.
const CLEAR_TIMEOUT: Duration = Duration::from_secs(600);
const POLL_EVERY: Duration = Duration::from_millis(500);
/// More than `ServicedRefreshReplays` allows.
const REPLAYS: usize = 20;

/// What happens, and the alerts that fire then.
struct Fault {
    name: &'static str,
    alerts: &'static [&'static str],
}

const FAULTS: [Fault; 3] = [
    Fault { name: "a node is killed", alerts: &["ServicedNodeDown"] },
    Fault { name: "old refresh tokens are used", alerts: &["ServicedRefreshReplays"] },
    Fault {
        name: "the database is stopped",
        alerts: &[
            "ServicedBudgetBurnsFast",
            "ServicedBudgetBurnsSlowly",
            "ServicedHeartbeatStale",
            "ServicedNodeNotReady",
            "ServicedRevocationsStale",
        ],
    },
];

pub(super) async fn run() -> Result<()> {
    let cluster = Cluster::start_quiet()?;
    let mut installation = Installation::start(&DrillDatabase::create(&cluster).await?).await?;
    let prometheus = Prometheus::start(&installation)?;
    let last = installation.nodes.last().context("there is no node")?.http.url.clone();
    let load = Load::start(&Client::new(), &last, installation.sign_in(USERS).await?, RATE_PER_NODE);
    prometheus.until_scraped(installation.nodes.len()).await?;
    // Prometheus takes five seconds to find its targets, which would be five minutes.
    clear(&prometheus, &mut BTreeMap::new()).await?.context("alerts fire from the beginning on")?;
    let (began, mut at_rest) = (Instant::now(), BTreeSet::new());
    while began.elapsed() < HEALTHY {
        at_rest.extend(prometheus.firing().await?);
        sleep(POLL_EVERY).await;
    }
    let mut faults = Vec::new();
    for (number, fault) in FAULTS.iter().enumerate() {
        say_error(fault.name);
        begin(number, &cluster, &mut installation).await?;
        let mut fired = fire(&prometheus, fault).await?;
        end(number, &cluster, &mut installation).await?;
        let cleared = clear(&prometheus, &mut fired).await?;
        let unexpected: Vec<_> = fired.keys().filter(|alert| !fault.alerts.contains(&alert.as_str())).collect();
        let missing: Vec<_> = fault.alerts.iter().filter(|alert| !fired.contains_key(**alert)).collect();
        faults.push(json!({
            "fault": fault.name,
            "fired_after_seconds": fired,
            "unexpected": unexpected,
            "missing": missing,
            "cleared_after_seconds": cleared,
        }));
    }
    let tally = load.stop().await?;
    let as_listed = |fault: &Value| {
        let none = |name: &str| fault[name].as_array().is_some_and(Vec::is_empty);
        none("unexpected") && none("missing") && !fault["cleared_after_seconds"].is_null()
    };
    let passed = at_rest.is_empty() && faults.iter().all(as_listed) && tally.signed_out == 0;
    report(&json!({ "drill": "alerts", "at_rest": at_rest, "faults": faults }), passed)
}

async fn begin(number: usize, cluster: &Cluster, installation: &mut Installation) -> Result<()> {
    match number {
        // No user is at this node.
        0 => installation.nodes.first_mut().context("there is no node")?.kill().await,
        1 => replay(installation).await,
        _ => cluster.stop(Stop::Fast),
    }
}

async fn end(number: usize, cluster: &Cluster, installation: &mut Installation) -> Result<()> {
    match number {
        0 => installation.nodes.first_mut().context("there is no node")?.start().await,
        1 => Ok(()),
        _ => cluster.resume(),
    }
}

/// Presents refresh tokens that were replaced twice.
async fn replay(installation: &Installation) -> Result<()> {
    let node = installation.nodes.first().context("there is no node")?;
    for user in 0..REPLAYS {
        let session = installation.sign_in_as(&format!("victim{user}@acme.test")).await?;
        let mut token = session.refresh_token.clone();
        for _ in 0..2 {
            let refreshed = node.http.post("/oauth/token", &refresh_body(&token)).await?;
            refreshed.field("refresh_token").clone_into(&mut token);
        }
        let replayed = node.http.post("/oauth/token", &refresh_body(&session.refresh_token)).await?;
        ensure!(replayed.error() == "invalid_grant", "a replay got {} {}", replayed.status, replayed.text);
    }
    Ok(())
}

/// Waits until the alerts of a fault fire; returns when each alert began to fire, in seconds.
async fn fire(prometheus: &Prometheus, fault: &Fault) -> Result<BTreeMap<String, u64>> {
    let (began, mut fired) = (Instant::now(), BTreeMap::new());
    while began.elapsed() < FIRE_TIMEOUT && !fault.alerts.iter().all(|alert| fired.contains_key(*alert)) {
        for alert in prometheus.firing().await? {
            fired.entry(alert).or_insert(began.elapsed().as_secs());
        }
        sleep(POLL_EVERY).await;
    }
    Ok(fired)
}

/// Waits until no alert fires; returns how long that took, in seconds, or `None` if it took too long. Adds alerts that fire meanwhile.
async fn clear(prometheus: &Prometheus, fired: &mut BTreeMap<String, u64>) -> Result<Option<u64>> {
    let began = Instant::now();
    while began.elapsed() < CLEAR_TIMEOUT {
        let firing = prometheus.firing().await?;
        if firing.is_empty() {
            return Ok(Some(began.elapsed().as_secs()));
        }
        for alert in firing {
            fired.entry(alert).or_insert(began.elapsed().as_secs());
        }
        sleep(POLL_EVERY).await;
    }
    Ok(None)
}
