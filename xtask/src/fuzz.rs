//! `cargo xtask fuzz`: feeds the parsers of `fuzz/targets` with bytes for a while. A finding fails, and names the file with the bytes.
//!
//! The targets are compiled with counters for libFuzzer by flags that stable compilers have, too.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use crate::{root, say, say_error};

const TARGETS: [&str; 2] = ["client_data", "authenticator_data"];

/// Runs of fewer seconds are brief.
const BRIEF: u32 = 60;

/// What counts the branches that an input takes.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Ccodegen-units=1 --cfg fuzzing";

#[derive(clap::Args)]
pub(crate) struct FuzzOptions {
    /// How long each target runs
    #[arg(long, default_value_t = 600)]
    seconds: u32,
    /// Only this target: `client_data` or `authenticator_data`
    #[arg(long)]
    target: Option<String>,
}

pub(crate) fn run(options: &FuzzOptions) -> Result<()> {
    let chosen = |name: &&str| options.target.as_ref().is_none_or(|only| only == name);
    let targets: Vec<_> = TARGETS.into_iter().filter(chosen).collect();
    ensure!(!targets.is_empty(), "there is no such target; --help lists them");
    let programs = build(options.seconds < BRIEF)?;
    for target in targets {
        let inputs = fuzz(target, &programs.join(target), options.seconds)?;
        say(&format!("{target}: {inputs} inputs in {} s, no finding", options.seconds));
    }
    Ok(())
}

/// Builds the targets; returns the directory of their programs. For a brief run, optimizing takes longer than it saves.
fn build(is_brief: bool) -> Result<PathBuf> {
    let profile = if is_brief { "dev" } else { "release" };
    let version = Command::new("rustc").arg("-vV").output()?;
    let version = String::from_utf8(version.stdout)?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    // With a target, the flags are not used for build scripts.
    let status = Command::new("cargo")
        .args(["build", "--profile", profile, "--locked", "--manifest-path", "fuzz/Cargo.toml", "--target", host])
        .args(["--target-dir", "target/fuzz"])
        .env("RUSTFLAGS", FLAGS)
        .current_dir(root())
        .status()?;
    ensure!(status.success(), "the fuzz targets do not build");
    Ok(root().join("target/fuzz").join(host).join(if is_brief { "debug" } else { "release" }))
}

/// Runs one target, and returns how many inputs it read.
fn fuzz(target: &str, program: &Path, seconds: u32) -> Result<u64> {
    // What was found interesting is kept for the next run; findings are kept beside it.
    let folder = root().join("target/fuzz").join(target);
    let (corpus, findings) = (folder.join("corpus"), folder.join("findings"));
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&findings)?;
    say_error(&format!("Fuzzing {target} for {seconds} s …"));
    let run = Command::new(program)
        .arg(&corpus)
        .arg(root().join("fuzz/seeds").join(target))
        .arg(format!("-artifact_prefix={}/", findings.display()))
        .arg(format!("-max_total_time={seconds}"))
        .args(["-max_len=8192", "-timeout=5", "-rss_limit_mb=512", "-print_final_stats=1"])
        .output()?;
    let log = String::from_utf8_lossy(&run.stderr);
    ensure!(run.status.success(), "{target} has a finding:\n{log}");
    let inputs = log.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    inputs.context("libFuzzer does not say how many inputs it read")?.trim().parse().context("no number of inputs")
}
