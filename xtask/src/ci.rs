//! `cargo xtask ci`: everything that guards main, in steps, in the order in which it is cheapest to fail.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};
use clap::builder::PossibleValuesParser;

use crate::{root, say, say_error, steps::Steps};

#[derive(clap::Args)]
pub(crate) struct CiOptions {
    /// Run only this step; can be repeated
    #[arg(long = "step", value_name = "NAME", value_parser = PossibleValuesParser::new(STEPS.map(|step| step.name)))]
    steps: Vec<String>,
    /// List the steps
    #[arg(long)]
    list: bool,
}

/// A part of CI that can run by itself.
struct Step {
    name: &'static str,
    what: &'static str,
    run: fn(&mut Steps) -> Result<()>,
}

const STEPS: [Step; 11] = [
    Step { name: "lint", what: "formatting, words, documents, spelling, workflows, clippy, map", run: lint },
    Step { name: "deps", what: "forbidden dependencies, licences, bans, sources, unused dependencies", run: deps },
    Step {
        name: "doc",
        what: "rustdoc with warnings as errors, manual pages, the documentation site and its links",
        run: doc,
    },
    Step { name: "bench", what: "a short benchmark, and a short measurement of capacity", run: bench },
    Step { name: "description", what: "the running service against its own description", run: description },
    Step { name: "test", what: "all tests that need neither a browser nor a keyring", run: test },
    Step { name: "browser", what: "tests with browsers, stock OAuth clients and a keyring", run: browser },
    Step { name: "examples", what: "the client libraries and every example", run: examples },
    Step { name: "mcp", what: "MCP clients that others wrote, and the official conformance suite", run: mcp },
    Step {
        name: "drills",
        what: "short drills of operation: restarts, outages, failovers, traces, the chart, alerts",
        run: drills,
    },
    Step { name: "rehearsal", what: "a release, packed from the debug build, and what is in it", run: rehearsal },
];

/// Dependencies that a crate must not have, because they would make its promise in ARCHITECTURE.md impossible to keep.
const FORBIDDEN: [(&str, &str); 10] = [
    ("service-api", "tokio"),
    ("service-api", "axum"),
    ("service-api", "reqwest"),
    ("service-rules", "tokio-postgres"),
    ("service-rules", "tokio"),
    ("service-rules", "axum"),
    ("service-client", "tokio-postgres"),
    ("service-client", "axum"),
    ("service-cli", "tokio-postgres"),
    ("service-cli", "axum"),
];

pub(crate) fn run(options: &CiOptions) -> Result<()> {
    let mut steps = Steps::default();
    for step in STEPS.iter().filter(|step| options.steps.is_empty() || options.steps.iter().any(|one| one == step.name))
    {
        if options.list {
            say(&format!("{:12} {}", step.name, step.what));
        } else {
            (step.run)(&mut steps)?;
        }
    }
    steps.summarize();
    Ok(())
}

/// Tests of every table that has a shard. `cargo xtask nightly` runs all tests on tables in partitions.
const IN_PARTITIONS: &str = "cargo test --locked --quiet --workspace --test it -- \
    access::spaces contents::kinds contents::search:: oauth::authorization_code_grant oauth::consents operations::shards \
    otp::grant refresh::verdicts workspaces::";

/// Tests that load the machine or measure how soon something happens. They would fail beside others on a slow machine.
const ALONE: [&str; 7] = [
    "oauth::authorization_code_races",
    "operations::freshness",
    "operations::moving_a_shard",
    "operations::waiting",
    "otp::offices",
    "refresh::growth",
    "refresh::races",
];

fn lint(steps: &mut Steps) -> Result<()> {
    steps.run("Formatting", "cargo fmt --all --check")?;
    steps.run("Words", "cargo xtask words")?;
    steps.run("Documents", "cargo xtask docs --check")?;
    steps.run("Map of negative tests", "cargo xtask map --check")?;
    steps.run("Spelling", "cargo xtask typos")?;
    steps.run("Workflows", "cargo xtask workflows")?;
    steps.run("Lints", "cargo clippy --locked --workspace --all-targets -- -D warnings")
}

fn deps(steps: &mut Steps) -> Result<()> {
    steps.run("Trees", "cargo tree --locked --quiet --workspace --depth 0")?;
    for (package, forbidden) in FORBIDDEN {
        if depends(package, forbidden)? {
            bail!("{package} depends on {forbidden}: see ARCHITECTURE.md, the map");
        }
    }
    steps.run("Licences, bans and sources", "cargo deny check bans licenses sources")?;
    // It would have to be compiled first, which takes minutes: `.ci/run` does without, the workflow does not.
    if is_installed("cargo-machete") {
        steps.run("Unused dependencies", "cargo machete")?;
    } else {
        say_error("── Unused dependencies: skipped, cargo-machete is not installed; the workflow runs it");
    }
    Ok(())
}

fn doc(steps: &mut Steps) -> Result<()> {
    let warnings_are_errors = [("RUSTDOCFLAGS", "-D warnings")];
    steps.run_with("Documentation", "cargo doc --locked --quiet --no-deps --workspace", &warnings_are_errors)?;
    steps.run("Manual pages", "cargo xtask man")?;
    steps.run("Documentation site", "cargo xtask book")
}

fn bench(steps: &mut Steps) -> Result<()> {
    steps.run("A short benchmark", "cargo xtask bench --quick --debug")?;
    steps.run("A short measurement of capacity", "cargo xtask capacity --quick")?;
    steps.run("Other products beside ours, briefly", "cargo xtask peers --quick")
}

fn description(steps: &mut Steps) -> Result<()> {
    steps.run("The description against the service", "cargo xtask schemathesis --examples 20")
}

fn test(steps: &mut Steps) -> Result<()> {
    steps.run("Build of the tests", "cargo test --locked --quiet --workspace --no-run")?;
    // Tests wait for time limits and for the database more than they compute, so a few more than the cores can run.
    let side_by_side = ["--workspace", "--", "--test-threads", "3"];
    let skipped = ALONE.iter().flat_map(|name| ["--skip", name]);
    steps.test("Tests", &side_by_side.into_iter().chain(skipped).collect::<Vec<_>>())?;
    let one_by_one = ["--workspace", "--test", "it", "--", "--test-threads", "1"];
    steps.test("Tests that run alone", &one_by_one.into_iter().chain(ALONE).collect::<Vec<_>>())?;
    steps.run_with("Some tests on tables in partitions", IN_PARTITIONS, &[("SERVICE_TEST_PARTITIONS", "8")])?;
    steps.run("Fuzz targets, briefly", "cargo xtask fuzz --seconds 10")
}

fn browser(steps: &mut Steps) -> Result<()> {
    steps.run("Clients of others", "cargo xtask clients")?;
    // All packages at once: of one alone, cargo would build dependencies again with other features.
    steps.test(
        "Browser, clients and keyring",
        &["--workspace", "--test", "browser", "--test", "clients", "--test", "keyring"],
    )
}

fn examples(steps: &mut Steps) -> Result<()> {
    steps.run("Client libraries and examples", "cargo xtask examples")
}

/// The clients that differ most from each other, and the official suites. `cargo xtask nightly` runs all clients.
const MCP_CLIENTS: &str = "cargo xtask mcp-interop --client ts-v1 --client ts-v2-2026 --client python --client service \
    --client authorization-suite --client server-suite";

fn mcp(steps: &mut Steps) -> Result<()> {
    steps.run("MCP clients and the conformance suite", MCP_CLIENTS)
}

/// Shorter and slower than `cargo xtask nightly` has them, with the debug build.
fn drills(steps: &mut Steps) -> Result<()> {
    steps.run("Nodes restarted behind proxies", "cargo xtask ops roll --restarts 2 --rate 40")?;
    // A test has an outage of 28 seconds.
    steps.run("A database that is away", "cargo xtask ops outage --seconds 10")?;
    steps.run("Nodes that start before their database", "cargo xtask ops outage --at-start 8")?;
    // The debug build on a busy machine is slower. Tokens are checked for 30 seconds.
    steps.run("A primary that is killed", "cargo xtask ops failover --times 1 --rate 40 --within 28")?;
    steps.run("A restored backup", "cargo xtask ops restore")?;
    steps.run("PgBouncer in transaction mode", "cargo xtask ops pgbouncer --mode transaction")?;
    steps.run("The chart for Kubernetes", "cargo xtask ops chart")?;
    steps.run("What users ask support", "cargo xtask ops support")?;
    steps.run("Traces, with a collector and without", "cargo xtask ops traces")?;
    steps.run("Rules, alerts and dashboards", "cargo xtask ops monitoring")?;
    steps.run("The image", "cargo xtask ops image")
}

fn rehearsal(steps: &mut Steps) -> Result<()> {
    steps.run("A rehearsal of a release", "cargo xtask dist --rehearse")
}

fn depends(package: &str, on: &str) -> Result<bool> {
    let output = Command::new("cargo")
        .args(["tree", "--locked", "--package", package, "--edges", "normal", "--invert", on])
        .current_dir(root())
        .output()?;
    Ok(output.status.success() && String::from_utf8_lossy(&output.stdout).contains(&format!("{package} ")))
}

fn is_installed(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
