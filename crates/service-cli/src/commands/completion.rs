//! `service completion`: a script that lets a shell complete commands. It asks nobody and reads nothing.

use std::process::ExitCode;

use clap_complete::Shell;

use crate::{command, failure::Failure, output};

pub(super) fn run(shell: Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "service", &mut script);
    output::out(String::from_utf8_lossy(&script).trim_end())?;
    Ok(ExitCode::SUCCESS)
}
