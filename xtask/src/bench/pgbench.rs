//! PostgreSQL alone: `pgbench` runs statements of the store.
//!
//! The statements are taken from the store's source, so that both sides run the same text.

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Context as _, Result, ensure};

use super::Bench;

const AUDIT_EVENTS: &str = include_str!("../../../crates/service-server/src/store/audit_events.rs");

/// Returns transactions per second of a script, with as many clients as the service has connections.
pub(super) fn run(bench: &Bench, script: &Path) -> Result<f64> {
    run_as(&bench.target(), script, bench.connections)
}

/// The database to measure, and for how long.
pub(crate) struct Target {
    pub(crate) url: String,
    pub(crate) round: Duration,
}

/// Returns transactions per second of a script with this number of clients.
pub(crate) fn run_as(target: &Target, script: &Path, clients: u64) -> Result<f64> {
    let seconds = format!("--time={}", target.round.as_secs().max(1));
    // On a slow disk not even one transaction may end in a short round. Then the time of one of each client is measured.
    match measure(target, script, clients, &seconds)? {
        Some(rate) => Ok(rate),
        None => measure(target, script, clients, "--transactions=1")?.context("pgbench printed no result"),
    }
}

/// Runs `pgbench` for as long as `limit` says; `None`: no transaction ended.
fn measure(target: &Target, script: &Path, clients: u64, limit: &str) -> Result<Option<f64>> {
    let output = Command::new("pgbench")
        .args(["--no-vacuum", "--protocol=prepared", "--jobs=2", "--client", &clients.to_string(), limit, "--file"])
        .arg(script)
        .arg(&target.url)
        .output()
        .context("cannot run pgbench, which is part of PostgreSQL")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "pgbench failed: {}", String::from_utf8_lossy(&output.stderr));
    let Some(line) = text.lines().find(|line| line.starts_with("tps")) else { return Ok(None) };
    let rate = line.split_whitespace().nth(2).context("pgbench printed no result")?;
    Ok(Some(rate.parse().context("pgbench printed no result")?))
}

/// The shard of the rows that a measurement makes: their ids have zeros there.
pub(crate) const SHARD: &str = "0::smallint";

/// Returns the raw string literal in `source` with this beginning.
pub(crate) fn statement<'a>(source: &'a str, beginning: &str) -> Result<&'a str> {
    let found = source.split("r\"").skip(1).find(|text| text.starts_with(beginning));
    found.and_then(|text| text.split('"').next()).with_context(|| format!("no statement begins with {beginning}"))
}

/// Replaces `$n` by values, the highest first so that `$1` does not match within `$10`.
pub(crate) fn fill(statement: &str, values: &[&str]) -> String {
    let numbered = values.iter().enumerate().rev();
    let text =
        numbered.fold(statement.to_owned(), |text, (place, value)| text.replace(&format!("${}", place + 1), value));
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What differs between the audit events of measurements, as SQL.
pub(super) struct AuditValues<'a> {
    pub(super) event: &'a str,
    pub(super) user: &'a str,
    pub(super) client: &'a str,
    pub(super) subject: &'a str,
    pub(super) details: &'a str,
}

/// The event of a request of a code.
pub(super) const OTP_REQUESTED: AuditValues<'static> = AuditValues {
    event: "'otp.requested'",
    user: "null",
    client: "null",
    subject: "null",
    details: "'{\"otpId\": \"otp_01h2xcejqtf2nbrexx3vqjhp41\"}'::jsonb",
};

/// Returns the statement that records an audit event.
pub(super) fn audit_event(values: &AuditValues<'_>) -> Result<String> {
    let values = [
        "gen_random_uuid()",
        "now()",
        values.event,
        values.user,
        values.client,
        "null",
        values.subject,
        "'10.0.0.0/24'",
        "'req_01h2xcejqtf2nbrexx3vqjhp41'",
        values.details,
        "sha256(random()::text::bytea)",
        "null",
    ];
    Ok(fill(statement(AUDIT_EVENTS, "insert into audit_events")?, &values))
}
