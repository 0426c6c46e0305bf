//! `cargo xtask dev`, if it is called past `xtask-start`: the development server is a program of its own, so that it can be
//! built without benchmarks, checks and the browser driver.

use std::{ffi::OsString, process::Command};

use anyhow::{Result, ensure};

use crate::root;

#[derive(clap::Args)]
pub(crate) struct DevOptions {
    /// Options of the development server; `cargo xtask dev --help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run(options: &DevOptions) -> Result<()> {
    let mut command = Command::new("cargo");
    command.args(["run", "--package", "xtask-start", "--", "dev"]).args(&options.arguments).current_dir(root());
    ensure!(command.status()?.success(), "the development server failed");
    Ok(())
}
