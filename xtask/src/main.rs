//! What the project does to itself: `cargo xtask dev | ci | map | bench`.

mod bench;
mod ci;
mod dev;
mod map;

use std::process::ExitCode;

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
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Dev(options) => dev::run(&options),
        Command::Ci => ci::run(),
        Command::Map(options) => map::run(&options),
        Command::Bench(options) => bench::run(&options),
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

#[expect(clippy::print_stdout, reason = "what was asked for")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "what happens meanwhile")]
fn say_error(text: &str) {
    eprintln!("{text}");
}
