//! The server scenarios of the official conformance suite, against a `serviced` that has the fixtures of the suite.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
};

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::json;
use service_testkit::{
    ports,
    process::Process,
    server::{Setup, TestServer, otp_exchange, request_code, signed_in},
};

use super::text_of;
use crate::{root, say_error, tools};

pub(super) const NAME: &str = "server-suite";
pub(super) const WHAT: &str = "The server scenarios of the official conformance suite";

/// The revision whose requirements have to be met.
const REVISION: &str = "2026-07-28";
/// How many required scenarios may fail. It only falls.
const MOST_FAILURES: usize = 0;

/// Scenarios of the revision that the suite does not require yet.
const PENDING: [&str; 3] = ["json-schema-2020-12", "http-header-validation", "http-custom-header-server-validation"];

/// An earlier revision that most clients speak.
const EARLIER: &str = "2025-11-25";

/// The scenarios of the earlier revision that apply to a server without sessions. The others are about logging, subscriptions
/// and requests to the client, which the service does not declare.
const EARLIER_SCENARIOS: [&str; 22] = [
    "server-initialize",
    "ping",
    "completion-complete",
    "tools-list",
    "tools-call-simple-text",
    "tools-call-image",
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-mixed-content",
    "tools-call-error",
    "tools-call-with-progress",
    "resources-list",
    "resources-read-text",
    "resources-read-binary",
    "resources-templates-read",
    "prompts-list",
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-get-embedded-resource",
    "prompts-get-with-image",
    "dns-rebinding-protection",
    "json-schema-2020-12",
];

/// How many scenarios run at a time. Each starts a program, which takes longer than the scenario.
const SIDE_BY_SIDE: usize = 4;

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
        tokio::task::spawn_blocking(move || run_all(&url)).await?
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

fn run_all(url: &str) -> Result<()> {
    let baseline = root().join("clients/mcp/conformance-baseline.yml");
    check_baseline(&fs::read_to_string(&baseline)?)?;
    say_error(&format!("── The scenarios that revision {REVISION} requires"));
    // The suite fails if a scenario fails that is not in the baseline, or passes and is in it.
    say_error(&suite(url, &["--requirements", REVISION, "--expected-failures", text_of(&baseline)?])?);
    for (scenarios, revision) in [(PENDING.as_slice(), REVISION), (&EARLIER_SCENARIOS, EARLIER)] {
        say_error(&format!("── Other scenarios of revision {revision}"));
        let next = Mutex::new(scenarios.iter());
        let run_next = || {
            while let Some(scenario) = next.lock().unwrap_or_else(PoisonError::into_inner).next() {
                suite(url, &["--scenario", scenario, "--spec-version", revision])?;
                say_error(&format!("✓ {scenario}"));
            }
            anyhow::Ok(())
        };
        thread::scope(|scope| {
            let running: Vec<_> = (0..SIDE_BY_SIDE).map(|_| scope.spawn(run_next)).collect();
            running.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow!("a scenario panicked"))?)
        })?;
    }
    Ok(())
}

/// Checks that the baseline has not grown, and that each entry has a reason.
fn check_baseline(baseline: &str) -> Result<()> {
    let lines: Vec<&str> = baseline.lines().map(str::trim).collect();
    let without_reason = lines.windows(2).find(|pair| pair[1].starts_with("- ") && !pair[0].starts_with('#'));
    ensure!(without_reason.is_none(), "an entry has no reason on the line above it: {without_reason:?}");
    let entries = lines.iter().filter(|line| line.starts_with("- ")).count();
    ensure!(
        entries == MOST_FAILURES,
        "the baseline has {entries} entries, not {MOST_FAILURES}: if there are fewer, lower MOST_FAILURES"
    );
    Ok(())
}

/// Runs a part of the suite; returns its summary.
fn suite(url: &str, which: &[&str]) -> Result<String> {
    let results = installed("results");
    let mut suite = Command::new(installed("node_modules/.bin/node"));
    suite.arg(installed("node_modules/@modelcontextprotocol/conformance/dist/index.js"));
    suite.args(["server", "--url", url]).args(which).arg("--output-dir").arg(&results);
    let output = suite.output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "the suite fails; {} has details\n{printed}", results.display());
    let summary = printed.split_once("=== SUMMARY ===").map_or(&*printed, |(_, summary)| summary);
    Ok(summary.trim().to_owned())
}

fn installed(path: &str) -> PathBuf {
    root().join("target/clients/mcp").join(path)
}
