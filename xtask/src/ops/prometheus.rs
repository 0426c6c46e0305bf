//! Prometheus, started with the files of `deploy/monitoring`: addresses are replaced, and minutes become seconds.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use reqwest::Client;
use serde_json::Value;
use service_testkit::ports;
use tokio::process::{Child, Command};
use tokio::time::sleep;

use super::nodes::Installation;
use super::replace;
use crate::root;

/// How much shorter durations are: a minute is a second.
const FASTER: u64 = 60;
/// No duration becomes shorter, in milliseconds. Nodes are scraped every second.
const SHORTEST: u64 = 5_000;
const START_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_EVERY: Duration = Duration::from_millis(200);

/// A running Prometheus, which is killed when dropped.
pub(super) struct Prometheus {
    url: String,
    client: Client,
    _process: Child,
}

impl Prometheus {
    /// Starts Prometheus, which scrapes both nodes every second.
    pub(super) fn start(installation: &Installation) -> Result<Self> {
        let (files, folder) = (root().join("deploy/monitoring"), installation.directory.path().join("prometheus"));
        fs::create_dir_all(&folder)?;
        let rules = fs::read_to_string(files.join("rules.yml"))?;
        fs::write(folder.join("rules.yml"), shorten_rules(&rules))?;
        let (port, ops) = (ports::free()?, installation.ops_port);
        let settings = replace(
            &fs::read_to_string(files.join("prometheus.yml"))?,
            &[
                ("scrape_interval: 15s", "scrape_interval: 1s"),
                ("scrape_timeout: 10s", "scrape_timeout: 1s"),
                ("evaluation_interval: 15s", "evaluation_interval: 1s"),
                ("10.0.0.11:9090", &format!("127.0.0.11:{ops}")),
                ("10.0.0.12:9090", &format!("127.0.0.12:{ops}")),
                // Nothing listens there.
                ("127.0.0.1:9093", &format!("127.0.0.1:{}", ports::free()?)),
            ],
        )?;
        fs::write(folder.join("prometheus.yml"), settings)?;
        let log = fs::File::create(folder.join("log"))?;
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", folder.join("prometheus.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}")).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        let process = command.spawn().context("prometheus: `.ci/install drills` installs it")?;
        Ok(Self { url: format!("http://127.0.0.1:{port}"), client: Client::new(), _process: process })
    }

    /// Waits until this many nodes are scraped.
    pub(super) async fn until_scraped(&self, nodes: usize) -> Result<()> {
        let began = Instant::now();
        loop {
            let up = self.get("/api/v1/query?query=up==1").await.unwrap_or_default();
            if up["result"].as_array().is_some_and(|result| result.len() == nodes) {
                return Ok(());
            }
            ensure!(began.elapsed() < START_TIMEOUT, "Prometheus does not scrape {nodes} nodes: {up}");
            sleep(POLL_EVERY).await;
        }
    }

    /// The alerts that fire now.
    pub(super) async fn firing(&self) -> Result<BTreeSet<String>> {
        let data = self.get("/api/v1/alerts").await?;
        let alerts = data["alerts"].as_array().context("Prometheus lists no alerts")?;
        let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
        Ok(firing.filter_map(|alert| alert["labels"]["alertname"].as_str().map(str::to_owned)).collect())
    }

    async fn get(&self, path: &str) -> Result<Value> {
        let mut answer: Value = self.client.get(format!("{}{path}", self.url)).send().await?.json().await?;
        Ok(answer["data"].take())
    }
}

/// Makes all windows and delays shorter. Thresholds stay: they compare what nodes measure.
fn shorten_rules(rules: &str) -> String {
    ["[", "for: ", "interval: ", "offset "].iter().fold(rules.to_owned(), |text, before| shorten_after(&text, before))
}

fn shorten_after(text: &str, before: &str) -> String {
    let shorter = |part: &str| match milliseconds(part) {
        Some((duration, rest)) => format!("{}ms{rest}", (duration / FASTER).max(SHORTEST)),
        None => part.to_owned(),
    };
    let mut parts = text.split(before);
    let first = parts.next().map(str::to_owned);
    first.into_iter().chain(parts.map(shorter)).collect::<Vec<_>>().join(before)
}

/// Parses a duration such as `5m` at the beginning of a text; returns it with what follows.
fn milliseconds(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|character: char| !character.is_ascii_digit())?;
    let (number, rest) = text.split_at(digits);
    let unit = match rest.chars().next()? {
        's' => 1_000,
        'm' => 60_000,
        'h' => 3_600_000,
        'd' => 86_400_000,
        _ => return None,
    };
    let rest = &rest[1..];
    let ends = !rest.starts_with(|character: char| character.is_ascii_alphanumeric());
    Some((number.parse::<u64>().ok()? * unit, rest)).filter(|_| ends)
}

#[cfg(test)]
mod tests {
    use super::shorten_rules;

    #[test]
    fn windows_and_delays_become_shorter_and_nothing_else() {
        let rules = "expr: rate(a:rate5m[1h]) > 60 offset 1d\nfor: 30s\ninterval: 10m\nsummary: for 5m [5mm] for: ever";
        let shorter = "expr: rate(a:rate5m[60000ms]) > 60 offset 1440000ms\nfor: 5000ms\ninterval: 10000ms\n\
                       summary: for 5m [5mm] for: ever";
        assert_eq!(shorten_rules(rules), shorter);
    }
}
