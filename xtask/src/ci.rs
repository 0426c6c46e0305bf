//! `cargo xtask ci`: everything that guards main, in the order in which it is cheapest to fail.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result, bail};

use crate::{root, say, say_error};

/// What must not be in whose tree: the dependencies that would make a floor's promise impossible to keep.
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

pub(crate) fn run() -> Result<()> {
    step("Formatting", "cargo fmt --all --check")?;
    step("Trees", "cargo tree --locked --quiet --workspace --depth 0")?;
    for (package, forbidden) in FORBIDDEN {
        if depends(package, forbidden)? {
            bail!("{package} depends on {forbidden}: see ARCHITECTURE.md, the map");
        }
    }
    step("Licences, bans and sources", "cargo deny check bans licenses sources")?;
    step("Lints", "cargo clippy --locked --workspace --all-targets -- -D warnings")?;
    step("Map of negative tests", "cargo xtask map --check")?;
    step("A short benchmark", "cargo xtask bench --quick --debug")?;
    step("Clients of others", "cargo xtask clients")?;
    step("The description against the service", "cargo xtask schemathesis --examples 20")?;
    test(&["--workspace"])?;
    test(&["--package", "service-server", "--test", "browser", "--test", "clients"])?;
    test(&["--package", "service-cli", "--test", "browser", "--test", "keyring"])?;
    step("Manual pages", "cargo xtask man")
}

fn step(name: &str, command: &str) -> Result<()> {
    say_error(&format!("── {name}: {command}"));
    let began = Instant::now();
    let mut words = command.split(' ');
    let program = words.next().context("an empty command")?;
    let status = Command::new(program).args(words).current_dir(root()).status()?;
    if !status.success() {
        bail!("{name} failed: {command}");
    }
    say_error(&format!("── {name}: {} s", began.elapsed().as_secs()));
    Ok(())
}

/// Runs tests, and closes with how many there were.
fn test(which: &[&str]) -> Result<()> {
    let began = Instant::now();
    let mut child = Command::new("cargo")
        .args(["test", "--locked", "--no-fail-fast"])
        .args(which)
        .args(["--", "--show-output"])
        .current_dir(root())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().context("the tests say nothing")?;
    let (mut passed, mut failed) = (0, 0);
    for line in BufReader::new(output).lines() {
        let line = line?;
        if line.starts_with("test result:") {
            passed += counted(&line, "passed");
            failed += counted(&line, "failed");
        }
        say(&line);
    }
    let success = child.wait()?.success();
    say_error(&format!("── Tests: {} s", began.elapsed().as_secs()));
    say(&format!("{passed} passed, {failed} failed"));
    if success { Ok(()) } else { bail!("tests failed") }
}

/// The number in front of `word`, as in `test result: ok. 3 passed; 0 failed`.
fn counted(line: &str, word: &str) -> u64 {
    let words: Vec<_> = line.split([' ', ';']).collect();
    let place = words.iter().position(|found| *found == word);
    place.and_then(|place| words.get(place.checked_sub(1)?)?.parse().ok()).unwrap_or_default()
}

fn depends(package: &str, on: &str) -> Result<bool> {
    let output = Command::new("cargo")
        .args(["tree", "--locked", "--package", package, "--edges", "normal", "--invert", on])
        .current_dir(root())
        .output()?;
    Ok(output.status.success() && String::from_utf8_lossy(&output.stdout).contains(&format!("{package} ")))
}
