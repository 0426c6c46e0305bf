//! What the project does to itself: `cargo xtask dev | ci | map | bench | clients | schemathesis | screenshots | faults |
//! man | cli-kills`.

mod bench;
mod ci;
mod cli_kills;
mod clients;
mod dev;
mod faults;
mod man;
mod map;
mod schemathesis;
mod screenshots;

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run everything a developer needs: PostgreSQL, mailbox, server, a demo user and workspace
    Dev(dev::Options),
    /// Run everything that guards main
    Ci,
    /// Print every row of docs/negative-tests.md with its tests, and what is open
    Map(map::Options),
    /// Measure the service against the bare engine and a bare handler, interleaved in one run
    Bench(bench::Options),
    /// Install the clients of others that the tests `browser` and `clients` use
    Clients,
    /// Hold the running service against its own description, with made-up requests
    Schemathesis(schemathesis::Options),
    /// Take a picture of every page, light and dark, on a desk and on a phone
    Screenshots,
    /// Kill nodes between commit and answer, by the hundred or the thousand
    Faults(faults::Options),
    /// Write the manual pages of the command `service`
    Man(man::Options),
    /// Kill the command `service` while it renews its sign-in, by the thousand
    CliKills(cli_kills::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Dev(options) => dev::run(&options),
        Command::Ci => ci::run(),
        Command::Map(options) => map::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Clients => clients::run(),
        Command::Schemathesis(options) => schemathesis::run(&options),
        Command::Screenshots => screenshots::run(),
        Command::Faults(options) => faults::run(&options),
        Command::Man(options) => man::run(&options),
        Command::CliKills(options) => cli_kills::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say_error(&format!("xtask: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// The top of the repository.
fn root() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Builds `serviced` as this program was built; returns where it is.
fn build_server(release: bool) -> Result<std::path::PathBuf> {
    let mut build = std::process::Command::new("cargo");
    build.args(["build", "--quiet", "--package", "service-server", "--bin", "serviced"]).current_dir(root());
    if release {
        build.arg("--release");
    }
    ensure!(build.status()?.success(), "the server does not build");
    let here = std::env::current_exe()?;
    Ok(here.parent().context("this program is nowhere")?.join("serviced"))
}

#[expect(clippy::print_stdout, reason = "what was asked for")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "what happens meanwhile")]
fn say_error(text: &str) {
    eprintln!("{text}");
}
