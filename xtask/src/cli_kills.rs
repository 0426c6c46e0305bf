//! `cargo xtask cli-kills`: runs the test that kills `service` during a refresh, as often as requested.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::root;

#[derive(clap::Args)]
pub(crate) struct CliKillsOptions {
    #[arg(long, default_value_t = 1000)]
    count: u32,
}

pub(crate) fn run(options: &CliKillsOptions) -> Result<()> {
    let status = Command::new("cargo")
        .args(["test", "--package", "service-cli", "--test", "it", "a_renewal_that_is_killed_costs_nothing_ci_03"])
        .args(["--", "--show-output"])
        .env("SERVICE_CLI_KILLS", options.count.to_string())
        .current_dir(root())
        .status()?;
    ensure!(status.success(), "a killed refresh lost the session");
    Ok(())
}
