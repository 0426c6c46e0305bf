//! The engine by itself: `pgbench` running statements of the store.
//!
//! The statements are taken from the store's source, so that both sides run the same text.

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Context as _, Result, ensure};

use super::Bench;

/// Transactions a second of a script, with as many clients as the service has connections.
pub(super) fn run(bench: &Bench, script: &Path) -> Result<f64> {
    run_as(&bench.target(), script, bench.connections)
}

/// Where the engine is, and how long it is to run.
pub(super) struct Target {
    pub(super) url: String,
    pub(super) round: Duration,
}

/// The same with so many clients.
pub(super) fn run_as(target: &Target, script: &Path, clients: u64) -> Result<f64> {
    let clients = clients.to_string();
    let output = Command::new("pgbench")
        .args(["--no-vacuum", "--protocol=prepared", "--jobs=2", "--client", &clients])
        .args(["--time", &target.round.as_secs().max(1).to_string(), "--file"])
        .arg(script)
        .arg(&target.url)
        .output()
        .context("pgbench does not run; it comes with PostgreSQL")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "pgbench failed: {}", String::from_utf8_lossy(&output.stderr));
    let line = text.lines().find(|line| line.starts_with("tps")).context("pgbench said no figure")?;
    line.split_whitespace().nth(2).context("pgbench said no figure")?.parse().context("pgbench said no figure")
}

/// The raw string literal in `source` that begins like this.
pub(super) fn statement<'a>(source: &'a str, beginning: &str) -> Result<&'a str> {
    let found = source.split("r\"").skip(1).find(|text| text.starts_with(beginning));
    found.and_then(|text| text.split('"').next()).with_context(|| format!("no statement begins with {beginning}"))
}

/// Puts values in the place of `$n`, the highest first so that `$1` does not match within `$10`.
pub(super) fn fill(statement: &str, values: &[&str]) -> String {
    let numbered = values.iter().enumerate().rev();
    let text =
        numbered.fold(statement.to_owned(), |text, (place, value)| text.replace(&format!("${}", place + 1), value));
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
