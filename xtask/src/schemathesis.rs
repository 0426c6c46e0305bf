//! `cargo xtask schemathesis`: tests the running service against its own API description, with generated requests.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use service_testkit::server::{Setup, SignedIn, TestServer};

use crate::{clients, root};

#[derive(Args)]
pub(crate) struct SchemathesisOptions {
    /// Generated requests for each operation
    #[arg(long, default_value_t = 200)]
    examples: u32,
    /// The seed of the generator, to repeat a run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Test this operation only
    #[arg(long)]
    operation: Option<String>,
}

/// Limits that are raised, because nearly all responses would be 429 otherwise.
const RAISED_LIMITS: [&str; 8] = [
    "otp_sends_per_network",
    "otp_failures_per_network",
    "otp_failures",
    "login_options_per_network",
    "leak_reports_per_network",
    "tokens_per_user",
    "registrations_per_network",
    "documents",
];

const REVOKES_SESSIONS: &str = "endSession";
const CLOSES_ACCOUNT: &str = "deleteAccount";

pub(crate) fn run(options: &SchemathesisOptions) -> Result<()> {
    clients::install_python()?;
    // On a clock that stands still, the token does not expire.
    let setup = RAISED_LIMITS
        .iter()
        .fold(Setup::default(), |setup, limit| setup.set(&format!("limits.{limit}"), "1000000+1000000"));
    setup.run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        if let Some(operation) = &options.operation {
            return attack(server, &ann, options, &["--include-operation-id", operation]).await;
        }
        // These operations would end the session of this test.
        let others = ["--exclude-operation-id", REVOKES_SESSIONS, "--exclude-operation-id", CLOSES_ACCOUNT];
        attack(server, &ann, options, &others).await?;
        attack(server, &ann, options, &["--include-operation-id", REVOKES_SESSIONS]).await?;
        // Codes for Ann may wait that the attack requested.
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        server.keep_account(bob.user_id).await?;
        attack(server, &bob, options, &["--include-operation-id", CLOSES_ACCOUNT]).await
    })
}

async fn attack(server: &TestServer, ann: &SignedIn, options: &SchemathesisOptions, which: &[&str]) -> Result<()> {
    let mut command = Command::new(root().join("target/clients/python/bin/schemathesis"));
    command
        .arg("--config-file")
        .arg(root().join("clients/schemathesis.toml"))
        .args(["run", &format!("{}/openapi.json", server.http.url), "--url", &server.http.url])
        .args(["--checks", "all", "--no-color"])
        .args(["--max-examples", &options.examples.to_string(), "--seed", &options.seed.to_string()])
        .args(which)
        // It writes files to its working directory.
        .current_dir(root().join("target/clients"))
        .env("SERVICE_ACCESS_TOKEN", &ann.access_token);
    // The server runs in this process, and must respond while schemathesis runs.
    let status = tokio::task::spawn_blocking(move || command.status()).await?.context("cannot run schemathesis")?;
    ensure!(status.success(), "the service and its description differ");
    Ok(())
}
