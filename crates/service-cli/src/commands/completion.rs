//! `service completion`: prints a shell completion script. It needs no server and no files.

use std::process::ExitCode;

use clap_complete::Shell;

use crate::{command, failure::Failure, output};

pub(super) fn run(shell: Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "service", &mut script);
    output::print_line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(ExitCode::SUCCESS)
}
