//! Development tasks: `cargo xtask dev | quickstart | ci | nightly | words | docs | typos | workflows | map | bench |
//! peers | capacity | engine-settings | clients | sdk | examples | mcp-interop | schemathesis | screenshots | faults | fuzz | man |
//! book | dist | ops | cli-kills`.

mod bench;
mod book;
mod capacity;
mod ci;
mod cli_kills;
mod clients;
mod dev;
mod dist;
mod docs;
mod engine_settings;
mod examples;
mod faults;
mod files;
mod fuzz;
mod man;
mod map;
mod mcp_interop;
mod memory;
mod nightly;
mod ops;
mod peers;
mod pictures;
mod processes;
mod progress;
mod quickstart;
mod revisions;
mod schemathesis;
mod screenshots;
mod sdk;
mod steps;
mod tools;
mod words;

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
    /// Run PostgreSQL, a mailbox and the server, with a demo user and workspace
    Dev(dev::DevOptions),
    /// Follow the README from a clean clone, with a stopwatch
    Quickstart(quickstart::QuickstartOptions),
    /// Run all checks that a change must pass
    Ci(ci::CiOptions),
    /// Run the checks that take too long for every change: long fault loops and the whole benchmark
    Nightly,
    /// Print every row of docs/negative-tests.md with its tests, and the rows without
    Map(map::MapOptions),
    /// Check that the documents name files that exist
    Docs(docs::DocsOptions),
    /// Build the documentation site in target/book, and check its links
    Book,
    /// Look for misspelt words
    Typos,
    /// Check the workflows of GitHub Actions
    Workflows,
    /// Count the habits of naming and writing that we are leaving behind, against their ceilings
    Words(words::WordsOptions),
    /// Measure the service against PostgreSQL alone and a bare handler, in alternating rounds
    Bench(bench::BenchOptions),
    /// Measure other products beside ours on one PostgreSQL, in alternating rounds
    Peers(peers::PeersOptions),
    /// Measure what operations cost, and compute what 10⁴ to 10⁹ users need; writes docs/capacity.md
    Capacity(capacity::CapacityOptions),
    /// Measure what settings of PostgreSQL change: the write-ahead log of a refresh
    EngineSettings(engine_settings::EngineSettingsOptions),
    /// Install the third-party clients that the tests `browser` and `clients` use
    Clients,
    /// Generate and pack the client libraries for TypeScript and Python
    Sdk,
    /// Run the client libraries and every example against a server
    Examples,
    /// Let MCP clients that others wrote connect to the service, and run the official conformance suite
    McpInterop(mcp_interop::McpInteropOptions),
    /// Test the running service against its own description, with generated requests
    Schemathesis(schemathesis::SchemathesisOptions),
    /// Take screenshots of every page, light and dark, wide and narrow
    Screenshots,
    /// Kill nodes between commit and response, hundreds or thousands of times
    Faults(faults::FaultsOptions),
    /// Feed the parsers of what authenticators and browsers send with bytes, and fail at what they should not accept
    Fuzz(fuzz::FuzzOptions),
    /// Write the manual pages of `service` and `serviced`
    Man(man::ManOptions),
    /// Build a release: programs, archives, packages, images, checksums and their signature
    Dist(dist::DistOptions),
    /// Do to running nodes what happens to nodes, and measure what users notice
    Ops(ops::OpsOptions),
    /// Kill `service` while it refreshes its session, a thousand times
    CliKills(cli_kills::CliKillsOptions),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Dev(options) => dev::run(&options),
        Command::Quickstart(options) => quickstart::run(&options),
        Command::Ci(options) => ci::run(&options),
        Command::Nightly => nightly::run(),
        Command::Map(options) => map::run(&options),
        Command::Docs(options) => docs::run(&options),
        Command::Book => book::run(),
        Command::Typos => tools::typos(),
        Command::Workflows => tools::workflows(),
        Command::Words(options) => words::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Peers(options) => peers::run(&options),
        Command::Capacity(options) => capacity::run(&options),
        Command::EngineSettings(options) => engine_settings::run(&options),
        Command::Clients => clients::run(),
        Command::Sdk => sdk::run(),
        Command::Examples => examples::run(),
        Command::McpInterop(options) => mcp_interop::run(&options),
        Command::Schemathesis(options) => schemathesis::run(&options),
        Command::Screenshots => screenshots::run(),
        Command::Faults(options) => faults::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Man(options) => man::run(&options),
        Command::Dist(options) => dist::run(&options),
        Command::Ops(options) => ops::run(&options),
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

/// Returns the root directory of the repository.
fn root() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Builds `serviced` in this program's profile; returns its path.
fn build_server(release: bool) -> Result<std::path::PathBuf> {
    build_program("serviced", release)
}

/// Builds a program of the workspace, as it is released if this program is optimized; returns its path.
fn build_program(name: &str, release: bool) -> Result<std::path::PathBuf> {
    let mut build = std::process::Command::new("cargo");
    // All packages at once: of one alone, cargo would build dependencies again with other features.
    build.args(["build", "--workspace", "--bin", name]).current_dir(root());
    if release {
        build.arg("--release");
    }
    ensure!(build.status()?.success(), "{name} does not build");
    let here = std::env::current_exe()?;
    let target = here.parent().and_then(std::path::Path::parent).context("this program has no directory")?;
    Ok(target.join(if release { "release" } else { "debug" }).join(name))
}

#[expect(clippy::print_stdout, reason = "what was asked for")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "what happens meanwhile")]
fn say_error(text: &str) {
    eprintln!("{text}");
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, error::ErrorKind};
    use service_testkit::documents;

    #[test]
    fn every_command_in_the_documents_is_understood_by_its_program() {
        let mut problems = Vec::new();
        for document in documents::read_all().unwrap() {
            for block in document.blocks() {
                for (name, parser) in [
                    ("cargo xtask", super::Arguments::command()),
                    ("service", service_cli::command()),
                    ("serviced", service_server::cli::command()),
                ] {
                    for words in documents::commands_of(&block, name) {
                        let parsed = parser.clone().try_get_matches_from([vec![name.to_owned()], words].concat());
                        let problem = parsed.err().filter(|error| error.kind() != ErrorKind::DisplayHelp);
                        problems.extend(problem.map(|problem| format!("{}:{}: {problem}", document.path, block.line)));
                    }
                }
            }
        }
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }
}
