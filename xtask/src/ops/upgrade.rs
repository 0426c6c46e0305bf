//! `cargo xtask ops upgrade`: replaces the version before by this one under load, node by node, then back, and again forward.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result};
use serde_json::json;
use service_testkit::postgres::Cluster;
use tokio::time::sleep;

use super::load::Load;
use super::nodes::{DrillDatabase, Installation};
use super::proxies::{Product, Proxy};
use super::report;
use crate::{
    build_server,
    revisions::{self, git},
    root, say_error,
};

/// How many users share the requests.
const USERS: usize = 30;

/// How long a rollout waits after a node is ready, until the proxy has asked it again.
const SETTLED: Duration = Duration::from_secs(3);

#[derive(clap::Args)]
pub(crate) struct UpgradeOptions {
    /// The commit to upgrade from. By default the one that closed the newest version of CHANGELOG.md
    #[arg(long, value_name = "COMMIT")]
    from: Option<String>,
    /// Requests per second, half of them refreshes
    #[arg(long, default_value_t = 150)]
    rate: u32,
}

pub(super) async fn run(options: &UpgradeOptions) -> Result<()> {
    let commit = match &options.from {
        Some(commit) => git(&["rev-parse", &format!("{commit}^{{commit}}")])?,
        None => newest_version()?,
    };
    let release = !cfg!(debug_assertions);
    let (before, now) = (revisions::build(&commit, release)?, build_server(release)?);

    let cluster = Cluster::start_quiet()?;
    cluster.create_database("service", None).await?;
    let database = DrillDatabase { url: cluster.service_url("service"), ca_file: None };
    let mut installation = Installation::prepare(&database).await?;
    installation.use_program(&before);
    installation.command(&["migrate"]).await?;
    for node in &mut installation.nodes {
        node.start().await?;
    }
    let sessions = installation.sign_in(USERS).await?;
    let proxy = Proxy::start(Product::Haproxy, &installation).await?;
    sleep(SETTLED).await;
    let load = Load::start(&proxy.client, &proxy.url, sessions, options.rate);
    sleep(SETTLED).await;

    say_error("Migrating");
    installation.use_program(&now);
    installation.command(&["migrate"]).await?;
    for (step, program) in [("forward", &now), ("back", &before), ("forward again", &now)] {
        say_error(&format!("Rolling {step}"));
        for node in &mut installation.nodes {
            node.stop().await?;
            node.use_program(program);
            node.start().await?;
            sleep(SETTLED).await;
        }
    }
    let tally = load.stop().await?;
    let measured = json!({
        "drill": "upgrade",
        "from": commit,
        "rate": options.rate,
        "requests": tally.requests(),
        "refreshes": tally.refreshes,
        "failed": tally.failed(),
        "failures": tally.failures,
        "signed_out": tally.signed_out,
    });
    report(&measured, tally.failed() == 0 && tally.signed_out == 0)
}

/// Returns the commit that closed the newest version in CHANGELOG.md.
pub(super) fn newest_version() -> Result<String> {
    let changes = fs::read_to_string(root().join("CHANGELOG.md"))?;
    let heading = changes.lines().find(|line| line.starts_with("## ") && *line != "## Unreleased");
    let heading = heading.context("CHANGELOG.md has no version")?;
    let commits = git(&["log", "--format=%H", &format!("-S{heading}"), "--", "CHANGELOG.md"])?;
    Ok(commits.lines().last().with_context(|| format!("no commit added {heading:?} to CHANGELOG.md"))?.to_owned())
}
