//! `cargo xtask ops`: drills. Each starts real nodes, does to them what happens to nodes, prints one line of JSON with what
//! it measured, and fails if a figure misses its limit.

mod alerts;
mod backups;
mod chart;
mod compose;
mod compose_images;
mod containers;
mod deb;
mod failover;
mod grow;
mod grow_account;
mod grow_day;
mod grow_users;
mod image;
mod kube;
mod load;
mod machine;
mod mail;
mod migrate_locks;
mod monitoring;
mod namespaces;
mod nodes;
mod outage;
mod patroni;
mod pgbouncer;
mod prometheus;
mod proxies;
mod restore;
mod roll;
mod soak;
mod support;
mod surroundings;
mod traces;
mod upgrade;

use anyhow::{Result, ensure};
use clap::Subcommand;
use serde_json::{Value, json};

use crate::{say, say_error};

#[derive(clap::Args)]
pub(crate) struct OpsOptions {
    #[command(subcommand)]
    drill: Drill,
}

#[derive(Subcommand)]
enum Drill {
    /// Restart two nodes behind each proxy of `deploy/proxy` under load: no request fails
    Roll(roll::RollOptions),
    /// Stop and kill PostgreSQL for some seconds: no token check fails, and everything is served soon after
    Outage(outage::OutageOptions),
    /// Kill or move the primary of three PostgreSQL servers under load: no token check fails, and nothing is lost
    Failover(failover::FailoverOptions),
    /// Lose the database, and restore a backup: nodes refuse everything until an operator has finished the restore
    Restore,
    /// Render the chart for Kubernetes, and check it against the schemas of five versions
    Chart,
    /// Replace the version before by this one under load, and back: no request fails, and no user is signed out
    Upgrade(upgrade::UpgradeOptions),
    /// Run the commands that answer what users ask support, as docs/operating.md has them
    Support,
    /// Start `deploy/compose` by one command, and sign in
    Compose(compose::ComposeOptions),
    /// Let podman run the Deployment of the chart on a real database
    Kube(kube::KubeOptions),
    /// Bounce, stall and defer mail: no mail is sent to an address that bounced, and codes still arrive
    Mail,
    /// Check rules, alerts and dashboards with promtool, and against what a node measures
    Monitoring,
    /// Run the image of a release as the documents say: a user signs in, within 128 MB
    Image(image::ImageOptions),
    /// Install, upgrade and remove the package for Debian under systemd, with the commands of the documents
    Deb(deb::DebOptions),
    /// Send spans to a collector that then goes away: it gets them, no secret is among them, and no request waits
    Traces,
    /// Let two nodes work for hours under light load: memory and descriptors stay as they are
    Soak(soak::SoakOptions),
    /// Turn a node's clock by hundreds of days, while a few users work: no table grows
    Grow(grow::GrowOptions),
    /// Put `PgBouncer` between nodes and PostgreSQL, and restart it: users sign in, and revocations arrive
    Pgbouncer(pgbouncer::PgbouncerOptions),
    /// Migrate a large database of the version before under load: no lock is held for long
    MigrateLocks(migrate_locks::MigrateLocksOptions),
    /// Let Prometheus watch faults: exactly the alerts that belong to them fire, and they clear
    Alerts,
}

pub(crate) fn run(options: &OpsOptions) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        match &options.drill {
            Drill::Roll(options) => roll::run(options).await,
            Drill::Outage(options) => outage::run(options).await,
            Drill::Failover(options) => failover::run(options).await,
            Drill::Restore => restore::run().await,
            Drill::Chart => chart::run(),
            Drill::Upgrade(options) => upgrade::run(options).await,
            Drill::Support => support::run().await,
            Drill::Compose(options) => compose::run(options).await,
            Drill::Kube(options) => kube::run(options).await,
            Drill::Mail => mail::run().await,
            Drill::Monitoring => monitoring::run().await,
            Drill::Image(options) => image::run(options).await,
            Drill::Deb(options) => deb::run(options).await,
            Drill::Traces => traces::run().await,
            Drill::Soak(options) => soak::run(options).await,
            Drill::Grow(options) => grow::run(options).await,
            Drill::Pgbouncer(options) => pgbouncer::run(options).await,
            Drill::MigrateLocks(options) => migrate_locks::run(options).await,
            Drill::Alerts => alerts::run().await,
        }
    })
}

/// Prints what a drill measured, and fails if it has not passed.
fn report(measured: &Value, passed: bool) -> Result<()> {
    let mut line = measured.clone();
    line["passed"] = passed.into();
    say(&line.to_string());
    ensure!(passed, "the drill {} failed", measured["drill"]);
    Ok(())
}

/// Reports that a drill is skipped: it has neither passed nor failed. Only in CI that is no failure, because another machine is
/// expected to have what this one lacks.
fn skip(drill: &str, reason: &str) -> Result<()> {
    say_error(&format!("skipped: {reason}"));
    say(&json!({ "drill": drill, "skipped": reason }).to_string());
    ensure!(std::env::var_os("CI").is_some(), "the drill {drill} was skipped");
    Ok(())
}

/// Replaces words of a shipped file, all of which it must contain.
fn replace(text: &str, words: &[(&str, &str)]) -> Result<String> {
    let mut text = text.to_owned();
    for (from, to) in words {
        ensure!(text.contains(from), "the file does not contain {from:?}");
        text = text.replace(from, to);
    }
    Ok(text)
}
