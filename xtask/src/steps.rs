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

    /// Runs tests, and closes with how many there were.
    pub(crate) fn test(&mut self, name: &str, which: &[&str]) -> Result<()> {
        say_error(&format!("── {name}: cargo test {}", which.join(" ")));
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
        say(&format!("{passed} passed, {failed} failed"));
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

/// The number in front of `word`, as in `test result: ok. 3 passed; 0 failed`.
fn counted(line: &str, word: &str) -> u64 {
    let words: Vec<_> = line.split([' ', ';']).collect();
    let place = words.iter().position(|found| *found == word);
    place.and_then(|place| words.get(place.checked_sub(1)?)?.parse().ok()).unwrap_or_default()
}
