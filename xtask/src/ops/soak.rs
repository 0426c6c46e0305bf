//! `cargo xtask ops soak`: two nodes under light load for hours. Their memory and their descriptors stay as they are.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use reqwest::Client;
use serde_json::{Value, json};
use service_rules::lifetimes;
use service_testkit::postgres::Cluster;
use tokio::time::interval;

use super::load::{Load, Tally};
use super::nodes::{DrillDatabase, DrillNode, Installation};
use super::report;
use crate::{memory, say_error};

/// Users of each node who read and refresh all the time.
const USERS: usize = 10;
/// Users of each node who fill its caches first, and the requests that they send in a second.
const FILLING_USERS: usize = 60;
const FILLING_RATE: u32 = 300;
/// Tokens that a node has verified when its cache of 32,768 is full. Until then its memory grows, as it should.
const FILLED: f64 = 36_000.0;
const VERIFIED: &str = "service_requests_total{route=\"/v1/whoami\",status=\"200\"}";
/// Users who sign in now and then, one after the other.
const VISITORS: usize = 50;
const VISIT_EVERY: Duration = Duration::from_secs(5);
const SAMPLE_EVERY: Duration = Duration::from_secs(30);
/// Samples of a drill that is shorter than usual.
const FEWEST_SAMPLES: u32 = 40;

/// How much more memory a node may use after an hour, in MB.
const SLOPE: f64 = 1.0;
/// What is measured for less than this is printed, and not judged.
const JUDGED: Duration = Duration::from_secs(3_600);
/// Connections that the pools of a node may still open after the warm-up: `database.connections`.
const POOLED: u64 = 16;

#[derive(clap::Args)]
pub(crate) struct SoakOptions {
    /// How long the nodes run
    #[arg(long, default_value_t = 2)]
    hours: u64,
    /// How long the nodes run, in minutes
    #[arg(long, conflicts_with = "hours")]
    minutes: Option<u64>,
    /// Requests per second, half of them refreshes
    #[arg(long, default_value_t = 10)]
    rate: u32,
}

pub(super) async fn run(options: &SoakOptions) -> Result<()> {
    let length = Duration::from_secs(60) * u32::try_from(options.minutes.unwrap_or(60 * options.hours))?;
    let cluster = Cluster::start_quiet()?;
    let installation = Installation::start(&DrillDatabase::create(&cluster).await?).await?;
    fill_caches(&installation).await?;
    // Shorter than nodes keep an idle connection, as in `deploy/proxy`: a request on one that a node just closes would fail.
    let client = Client::builder().pool_idle_timeout(Duration::from_secs(30)).build()?;
    let per_node = (options.rate / u32::try_from(installation.nodes.len())?).max(1);
    let mut loads = Vec::new();
    for node in &installation.nodes {
        let sessions = installation.sign_in(USERS).await?;
        loads.push(Load::start(&client, &node.http.url, sessions, per_node));
    }
    let samples = watch_nodes(&installation, length).await?;
    let mut tally = Tally::default();
    for load in loads {
        tally.add(load.stop().await?);
    }

    let warm = warm_up(length);
    let nodes: Vec<_> = samples.iter().map(|samples| summarize(samples, warm)).collect::<Result<_>>()?;
    let judged = length >= JUDGED + warm;
    let within = |node: &Value| {
        let slope = node["megabytes_per_hour"].as_f64().unwrap_or(f64::INFINITY);
        let count = |name: &str| node[name].as_u64().unwrap_or_default();
        (!judged || slope < SLOPE) && count("descriptors_at_end") <= count("descriptors_when_warm") + POOLED
    };
    let measured = json!({
        "drill": "soak",
        "minutes": length.as_secs() / 60,
        "warm_up_minutes": warm.as_secs() / 60,
        "memory_judged": judged,
        "requests": tally.requests(),
        "failures": tally.failures,
        "signed_out": tally.signed_out,
        "nodes": nodes,
    });
    report(&measured, nodes.iter().all(within) && tally.failed() == 0)
}

/// Lets every node verify more tokens than it keeps.
async fn fill_caches(installation: &Installation) -> Result<()> {
    for node in &installation.nodes {
        let sessions = installation.sign_in(FILLING_USERS).await?;
        let load = Load::start(&Client::new(), &node.http.url, sessions, FILLING_RATE);
        let mut ticks = interval(SAMPLE_EVERY);
        while node.metric(VERIFIED).await.unwrap_or_default() < FILLED {
            ticks.tick().await;
            say_error(&format!(
                "Filling caches: {:.0} of {FILLED} tokens",
                node.metric(VERIFIED).await.unwrap_or_default()
            ));
        }
        load.stop().await?;
    }
    Ok(())
}

/// Until what the node counts is settled: an access token is valid for this long.
fn warm_up(length: Duration) -> Duration {
    let expired = Duration::from_secs(lifetimes::ACCESS_TOKEN.unsigned_abs());
    (length / 10).max(expired.min(length / 4))
}

/// What a node uses at a moment.
struct Sample {
    at: Duration,
    /// Without the pages of files, which the system takes away when it needs them.
    kilobytes: u64,
    most_kilobytes: u64,
    descriptors: u64,
}

/// Lets users sign in and out, and samples every node, for as long as the drill takes; returns the samples of each node.
async fn watch_nodes(installation: &Installation, length: Duration) -> Result<Vec<Vec<Sample>>> {
    let sample_every = SAMPLE_EVERY.min(length / FEWEST_SAMPLES);
    let (began, mut ticks, mut visits) = (Instant::now(), interval(VISIT_EVERY.min(sample_every)), 0_usize);
    let mut samples: Vec<Vec<Sample>> = installation.nodes.iter().map(|_| Vec::new()).collect();
    while began.elapsed() < length {
        ticks.tick().await;
        visit(installation, visits).await?;
        visits += 1;
        let taken = samples.first().map_or(0, Vec::len);
        if began.elapsed() < sample_every * u32::try_from(taken)? {
            continue;
        }
        // The mailbox is a part of this process, and keeps what it gets.
        installation.mailbox.clear();
        for (samples, node) in samples.iter_mut().zip(&installation.nodes) {
            let sample = Sample::take(node, began.elapsed())?;
            say_error(&format!(
                "{} s: {} kB, {} descriptors",
                sample.at.as_secs(),
                sample.kilobytes,
                sample.descriptors
            ));
            samples.push(sample);
        }
    }
    Ok(samples)
}

/// A user signs in, uses a CLI token, and signs out at the other node.
async fn visit(installation: &Installation, number: usize) -> Result<()> {
    let session = installation.sign_in_as(&format!("visitor{}@acme.test", number % VISITORS)).await?;
    let (first, last) = installation.nodes.first().zip(installation.nodes.last()).context("there is no node")?;
    let token = first.create_cli_token(&session).await?;
    ensure!(last.accepts_token(&token.secret).await, "a CLI token does not work");
    last.revoke_cli_token(&session, &token).await?;
    last.revoke(&session).await
}

impl Sample {
    fn take(node: &DrillNode, at: Duration) -> Result<Self> {
        let pid = node.pid()?;
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))?.count().try_into()?;
        let (now, most) = (memory::kilobytes(pid, "RssAnon")?, memory::kilobytes(pid, "VmHWM")?);
        Ok(Self { at, kilobytes: now, most_kilobytes: most, descriptors })
    }

    #[expect(clippy::cast_precision_loss, reason = "memory has fewer bytes than that")]
    fn megabytes(&self) -> f64 {
        self.kilobytes as f64 / 1024.0
    }

    #[expect(clippy::cast_precision_loss, reason = "a process has few descriptors")]
    fn open(&self) -> f64 {
        self.descriptors as f64
    }
}

/// What the samples of a node after the warm-up say.
fn summarize(samples: &[Sample], warm: Duration) -> Result<Value> {
    let measured: Vec<_> = samples.iter().filter(|sample| sample.at >= warm).collect();
    let (first, last) = measured.first().zip(measured.last()).context("there are no samples")?;
    let slope = |value: fn(&Sample) -> f64| {
        let points: Vec<_> = measured.iter().map(|sample| (sample.at.as_secs_f64() / 3_600.0, value(sample))).collect();
        rounded(slope(&points))
    };
    Ok(json!({
        "samples": measured.len(),
        "megabytes_at_start": samples.first().map(|sample| rounded(sample.megabytes())),
        "megabytes_when_warm": rounded(first.megabytes()),
        "megabytes_at_end": rounded(last.megabytes()),
        "megabytes_at_most": last.most_kilobytes / 1024,
        "megabytes_per_hour": slope(Sample::megabytes),
        "descriptors_when_warm": first.descriptors,
        "descriptors_at_end": last.descriptors,
        "descriptors_per_hour": slope(Sample::open),
    }))
}

/// The slope of the line with the least squares through points.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count: f64 = points.iter().map(|_| 1.0).sum();
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let both: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    both / points.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>()
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_slope_is_that_of_the_line_through_the_points() {
        let around = [(0.0, 10.5), (1.0, 11.5), (2.0, 14.5), (3.0, 15.5)];
        assert!((super::slope(&around) - 1.8).abs() < 1e-9, "{}", super::slope(&around));
        assert!(super::slope(&[(0.0, 7.0), (1.0, 7.0)]).abs() < 1e-9);
    }
}
