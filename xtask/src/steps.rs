//! Running one command after another, with the time that each took.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result, bail};

use crate::{root, say, say_error};

/// Steps that have passed, with their seconds.
#[derive(Default)]
pub(crate) struct Steps(Vec<(String, u64)>);

impl Steps {
    /// Runs a command that is split at its spaces.
    pub(crate) fn run(&mut self, name: &str, command: &str) -> Result<()> {
        self.run_with(name, command, &[])
    }

    /// Runs a command that is split at its spaces, with variables added to its environment.
    pub(crate) fn run_with(&mut self, name: &str, command: &str, variables: &[(&str, &str)]) -> Result<()> {
        say_error(&format!("── {name}: {command}"));
        let began = Instant::now();
        let mut words = command.split(' ');
        let program = words.next().context("an empty command")?;
        let status = Command::new(program).args(words).envs(variables.iter().copied()).current_dir(root()).status()?;
        if !status.success() {
            bail!("{name} failed: {command}");
        }
        self.passed(name, began);
        Ok(())
    }

    /// Runs tests. Prints those that fail, and closes with how many there were and with the names of the failed ones.
    pub(crate) fn test(&mut self, name: &str, which: &[&str]) -> Result<()> {
        say_error(&format!("── {name}: cargo test {}", which.join(" ")));
        let began = Instant::now();
        let mut child = Command::new("cargo")
            .args(["test", "--locked", "--no-fail-fast"])
            .args(which)
            .current_dir(root())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().context("the tests say nothing")?;
        let (mut passed, mut failed) = (0, Vec::new());
        for line in BufReader::new(output).lines() {
            let line = line?;
            if line.starts_with("test result:") {
                passed += count_passed(&line);
            }
            if let Some(test) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
                failed.push(test.to_owned());
            }
            // A line for each test that passes would hide the others.
            if !line.ends_with(" ... ok") {
                say(&line);
            }
        }
        let success = child.wait()?.success();
        say(&format!("{passed} passed, {} failed", failed.len()));
        for test in failed {
            say(&format!("failed: {test}"));
        }
        if !success {
            bail!("{name} failed");
        }
        self.passed(name, began);
        Ok(())
    }

    fn passed(&mut self, name: &str, began: Instant) {
        let seconds = began.elapsed().as_secs();
        say_error(&format!("── {name}: {seconds} s"));
        self.0.push((name.to_owned(), seconds));
    }

    /// Prints every step with its time.
    pub(crate) fn summarize(&self) {
        for (name, seconds) in &self.0 {
            say_error(&format!("{seconds:6} s  {name}"));
        }
    }
}

/// The number of passed tests in a line such as `test result: ok. 3 passed; 0 failed`.
fn count_passed(line: &str) -> u64 {
    let words: Vec<_> = line.split([' ', ';']).collect();
    let place = words.iter().position(|found| *found == "passed");
    place.and_then(|place| words.get(place.checked_sub(1)?)?.parse().ok()).unwrap_or_default()
}
