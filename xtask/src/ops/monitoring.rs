//! `cargo xtask ops monitoring`: the rules, alerts and dashboards of `deploy/monitoring` against `promtool` and a live node.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use service_testkit::postgres::Cluster;

use super::nodes::{DrillDatabase, Installation};
use super::report;
use crate::root;
use crate::tools::succeed_in_silence;

const FOLDER: &str = "deploy/monitoring";

/// What a node measures only while its support listener is on, which is off in this drill.
const OF_SUPPORT_LISTENER: [&str; 1] = ["service_support_calls_total"];

pub(super) async fn run() -> Result<()> {
    let folder = root().join(FOLDER);
    for arguments in
        [["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"], ["check", "config", "prometheus.yml"]]
    {
        promtool(&arguments, &folder)?;
    }
    let expressions = dashboard_expressions(&folder)?;
    check_expressions(&expressions)?;
    let cluster = Cluster::start_quiet()?;
    let installation = Installation::start(&DrillDatabase::create(&cluster).await?).await?;
    installation.sign_in(1).await?;
    let node = installation.nodes.first().context("there is no node")?;
    let known = families(&node.metrics().await?);
    let rules = fs::read_to_string(folder.join("rules.yml"))?;
    let is_known =
        |name: &str| known.iter().map(String::as_str).chain(OF_SUPPORT_LISTENER).any(|family| is_of(name, family));
    let mut unknown = BTreeSet::new();
    for text in expressions.iter().chain([&rules]) {
        unknown.extend(names(text).into_iter().filter(|name| !is_known(name)));
    }
    let listed = fs::read_to_string(folder.join("not-on-dashboards.txt"))?;
    let shown: BTreeSet<_> = expressions.iter().flat_map(|expression| names(expression)).collect();
    let is_shown = |family: &str| shown.iter().any(|name| is_of(name, family));
    let is_listed = |family: &str| listed.lines().any(|line| line.starts_with(&format!("{family}:")));
    let missing: Vec<_> = known.iter().filter(|family| !is_shown(family) && !is_listed(family)).collect();
    let measured = json!({
        "drill": "monitoring",
        "alerts": rules.matches("- alert: ").count(),
        "expressions": expressions.len(),
        "metrics": known.len(),
        "unknown": unknown,
        "on_no_dashboard": missing,
    });
    report(&measured, unknown.is_empty() && missing.is_empty())
}

fn promtool(arguments: &[&str], folder: &Path) -> Result<()> {
    let mut command = Command::new("promtool");
    succeed_in_silence(command.args(arguments).current_dir(folder))
        .context("promtool: `.ci/install drills` installs it with prometheus")
}

/// The expressions of every panel, with Grafana's variables replaced.
fn dashboard_expressions(folder: &Path) -> Result<Vec<String>> {
    let mut expressions = Vec::new();
    for entry in fs::read_dir(folder.join("dashboards"))? {
        let dashboard: Value = serde_json::from_slice(&fs::read(entry?.path())?)?;
        collect(&dashboard, &mut expressions);
    }
    let plain = |text: &String| text.replace("$__rate_interval", "5m").replace("$__range", "1h").replace("$node", ".*");
    Ok(expressions.iter().map(plain).collect())
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| collect(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}

/// Lets `promtool` parse the expressions, each as a rule.
fn check_expressions(expressions: &[String]) -> Result<()> {
    let record = |(number, text): (usize, &String)| json!({ "record": format!("panel:{number}"), "expr": text });
    let rules: Vec<_> = expressions.iter().enumerate().map(record).collect();
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("panels.yml");
    // JSON is YAML, too.
    fs::write(&file, json!({ "groups": [{ "name": "panels", "rules": rules }] }).to_string())?;
    promtool(&["check", "rules", "panels.yml"], folder.path())
}

/// The names of the metrics that a node describes.
fn families(metrics: &str) -> BTreeSet<String> {
    let described = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    described.map(str::to_owned).collect()
}

/// The names of a node's metrics in an expression or a file of rules. Those that rules record have a colon after `service`.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_' || character == ':';
    let words = text.split(|character: char| !is_part(character));
    let metric = |word: &&str| ["service_", "process_"].iter().any(|prefix| word.starts_with(prefix));
    words.filter(metric).map(str::to_owned).collect()
}

/// Whether a sample belongs to a family: a histogram has three kinds.
fn is_of(name: &str, family: &str) -> bool {
    name == family || ["_bucket", "_sum", "_count"].iter().any(|suffix| name.strip_suffix(suffix) == Some(family))
}
