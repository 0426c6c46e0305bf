//! `cargo xtask schemathesis`: sends the running service what its own description allows and forbids, and holds every
//! answer against that description.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use service_testkit::server::{Setup, SignedIn, TestServer};

use crate::{clients, root};

#[derive(Args)]
pub(crate) struct Options {
    /// Requests made up for each operation
    #[arg(long, default_value_t = 200)]
    examples: u32,
    /// What the requests are made up from, to see the same again
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this operation
    #[arg(long)]
    operation: Option<String>,
}

/// What is limited would answer 429 to nearly everything.
const LIMITS: [&str; 8] = [
    "otp_sends_per_network",
    "otp_failures_per_network",
    "otp_failures",
    "login_options_per_network",
    "leak_reports_per_network",
    "tokens_per_user",
    "registrations_per_network",
    "documents",
];

const ENDS_SESSIONS: &str = "endSession";

pub(crate) fn run(options: &Options) -> Result<()> {
    clients::install_python()?;
    // On a clock that stands still the token lives for as long as this takes.
    let setup =
        LIMITS.iter().fold(Setup::default(), |setup, limit| setup.set(&format!("limits.{limit}"), "1000000+1000000"));
    setup.run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        if let Some(operation) = &options.operation {
            return attack(server, &ann, options, &["--include-operation-id", operation]).await;
        }
        // Whoever ends sessions ends their own sooner or later.
        attack(server, &ann, options, &["--exclude-operation-id", ENDS_SESSIONS]).await?;
        attack(server, &ann, options, &["--include-operation-id", ENDS_SESSIONS]).await
    })
}

async fn attack(server: &TestServer, ann: &SignedIn, options: &Options, which: &[&str]) -> Result<()> {
    let mut command = Command::new(root().join("target/clients/python/bin/schemathesis"));
    command
        .arg("--config-file")
        .arg(root().join("clients/schemathesis.toml"))
        .args(["run", &format!("{}/openapi.json", server.door.url), "--url", &server.door.url])
        .args(["--checks", "all", "--no-color"])
        .args(["--max-examples", &options.examples.to_string(), "--seed", &options.seed.to_string()])
        .args(which)
        // It keeps notes where it runs.
        .current_dir(root().join("target/clients"))
        .env("SERVICE_ACCESS_TOKEN", &ann.access_token);
    // The server lives in this process: it goes on answering while the other one asks.
    let status = tokio::task::spawn_blocking(move || command.status()).await?.context("schemathesis does not run")?;
    ensure!(status.success(), "the service and its description differ");
    Ok(())
}
