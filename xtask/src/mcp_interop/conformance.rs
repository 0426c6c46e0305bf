//! The server scenarios of the official conformance suite, against a `serviced` that has the fixtures of the suite.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use service_testkit::{
    ports,
    process::Process,
    server::{Setup, TestServer, otp_exchange, request_code, signed_in},
};

use crate::{root, say_error, tools};

pub(super) const NAME: &str = "server-suite";
pub(super) const WHAT: &str = "The server scenarios of the official conformance suite";

/// What is run of the suite.
struct Run {
    revision: &'static str,
    /// How many scenarios may fail. It only falls.
    most_failures: usize,
    /// Scenarios of the revision that the suite does not require of anybody yet, and that have to pass as well.
    pending: &'static [&'static str],
}

const RUNS: [Run; 2] = [
    Run {
        revision: "2026-07-28",
        most_failures: 0,
        pending: &["json-schema-2020-12", "http-header-validation", "http-custom-header-server-validation"],
    },
    Run { revision: "2025-11-25", most_failures: 8, pending: &["json-schema-2020-12"] },
];

pub(super) fn run() -> Result<()> {
    say_error("Building serviced with the fixtures of the suite …");
    let binary = build()?;
    let address = format!("127.0.0.1:{}", ports::free()?);
    // The server of this process only provides what is around the other one: database, mailbox and settings.
    let setup = Setup::default().on_system_clock().set("base_url", &format!("http://{address}"));
    setup.run(async |server| {
        let mut settings = server.settings.clone();
        settings.set("http.listen", &address);
        let serviced = Process::start(&binary, &settings, &server.leaks)?;
        let token = access_token(server, &serviced).await?;
        let proxy = BearerProxy::start(&serviced.http.url, &token)?;
        let url = proxy.url.clone();
        tokio::task::spawn_blocking(move || RUNS.iter().try_for_each(|run| run.all(&url))).await?
    })
}

/// Builds `serviced` with the fixtures; returns the path of a copy, because other builds replace it.
fn build() -> Result<PathBuf> {
    ensure!(cfg!(debug_assertions), "an optimized build cannot have the fixtures: run without --release");
    let mut cargo = Command::new("cargo");
    // All packages at once: of one alone, cargo would build dependencies again with other features.
    cargo.args(["build", "--quiet", "--locked", "--workspace", "--bin", "serviced"]);
    tools::succeed(cargo.args(["--features", "service-server/mcp-conformance"]).current_dir(root()))?;
    let here = std::env::current_exe()?;
    let built = here.parent().context("this program has no directory")?.join("serviced");
    let copy = root().join("target/clients/mcp/serviced");
    fs::copy(&built, &copy)?;
    Ok(copy)
}

/// Creates a token pair for MCP; returns its access token.
async fn access_token(server: &TestServer, serviced: &Process) -> Result<String> {
    let (otp_id, code) = request_code(&serviced.http, &server.mailbox, &server.leaks, "suite@harbour.example").await?;
    let exchange = otp_exchange(&otp_id, &code, "read write");
    let user = signed_in(&serviced.http.post("/oauth/token", &exchange).await?)?;
    let request = serviced.http.request(reqwest::Method::POST, "/v1/mcp/tokens").bearer_auth(&user.access_token);
    let pair = serviced.http.send(request.json(&json!({ "scope": "read write" }))).await?;
    ensure!(pair.status == 201, "no token pair: {}", pair.text);
    Ok(pair.field("access_token").to_owned())
}

/// Adds the access token to requests, because the suite cannot. It is killed when dropped.
struct BearerProxy {
    child: Child,
    url: String,
}

impl BearerProxy {
    fn start(target: &str, token: &str) -> Result<Self> {
        let mut child = Command::new(installed("node_modules/.bin/node"))
            .arg(installed("bearer-proxy.mjs"))
            .env("TARGET", target)
            .env("BEARER", token)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut port = String::new();
        BufReader::new(child.stdout.take().context("the proxy says nothing")?).read_line(&mut port)?;
        Ok(Self { child, url: format!("http://127.0.0.1:{}/mcp", port.trim()) })
    }
}

impl Drop for BearerProxy {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Run {
    fn all(&self, url: &str) -> Result<()> {
        let baseline = root().join(format!("clients/mcp/conformance-baseline-{}.yml", self.revision));
        self.check(&fs::read_to_string(&baseline)?)?;
        say_error(&format!("── The scenarios that revision {} requires", self.revision));
        self.suite(url, &baseline, &["--requirements", self.revision])?;
        for scenario in self.pending {
            self.suite(url, &baseline, &["--scenario", scenario, "--spec-version", self.revision])?;
        }
        Ok(())
    }

    /// Checks that the baseline has not grown, and that each entry has a reason.
    fn check(&self, baseline: &str) -> Result<()> {
        let lines: Vec<&str> = baseline.lines().map(str::trim).collect();
        let without_reason = lines.windows(2).find(|pair| pair[1].starts_with("- ") && !pair[0].starts_with('#'));
        ensure!(without_reason.is_none(), "an entry has no reason on the line above it: {without_reason:?}");
        let entries = lines.iter().filter(|line| line.starts_with("- ")).count();
        let (revision, most) = (self.revision, self.most_failures);
        ensure!(
            entries == most,
            "the baseline of {revision} has {entries} entries, not {most}: only lower this number"
        );
        Ok(())
    }

    /// Runs a part of the suite. The suite fails if a scenario fails that is not in the baseline, or passes and is in it.
    fn suite(&self, url: &str, baseline: &Path, which: &[&str]) -> Result<()> {
        let results = root().join("target/clients/mcp/results").join(self.revision);
        let mut suite = Command::new(installed("node_modules/.bin/node"));
        suite.arg(installed("node_modules/@modelcontextprotocol/conformance/dist/index.js"));
        suite.args(["server", "--url", url]).args(which);
        suite.arg("--expected-failures").arg(baseline).arg("--output-dir").arg(&results);
        let output = suite.output()?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let summary = printed.split_once("=== SUMMARY ===").map_or(&*printed, |(_, summary)| summary);
        ensure!(output.status.success(), "the suite fails; {} has details\n{printed}", results.display());
        say_error(summary.trim());
        Ok(())
    }
}

fn installed(path: &str) -> PathBuf {
    root().join("target/clients/mcp").join(path)
}
