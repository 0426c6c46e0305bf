//! `cargo xtask ops support`: the commands of docs/operating.md that answer what users ask, each as the page has it.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use service_testkit::postgres::Cluster;

use super::{
    nodes::{DrillDatabase, Installation},
    report,
};
use crate::root;

/// What the page calls the user and the session.
const USER: &str = "ann@acme.example";
const SESSION: &str = "grant_01m955vw00fjqrz47smcqrkmzz";

/// An operator waits for one command.
const SLOWEST: Duration = Duration::from_secs(2);

pub(super) async fn run() -> Result<()> {
    let page = fs::read_to_string(root().join("docs/operating.md"))?;
    let section = page.split("\n## Helping a user\n").nth(1).context("the page has no section for support")?;
    let block = section.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).context("no commands")?;

    let cluster = Cluster::start_quiet()?;
    let installation = Installation::start(&DrillDatabase::create(&cluster).await?).await?;
    let session = installation.open_session(USER).await?.grant_id.to_string();
    installation.leave_mail_waiting(USER).await?;
    let (mut commands, mut slowest) = (0, Duration::ZERO);
    for line in block.lines() {
        let began = Instant::now();
        let printed = installation.shell(&line.replace(SESSION, &session)).await?;
        slowest = slowest.max(began.elapsed());
        ensure!(!printed.trim().is_empty(), "{line} prints nothing");
        commands += 1;
    }
    installation.command(&["admin", "audit", "verify"]).await?;
    let measured = json!({ "drill": "support", "commands": commands, "slowest_seconds": slowest.as_secs_f64() });
    report(&measured, commands >= 10 && slowest < SLOWEST)
}
