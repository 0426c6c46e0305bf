//! `cargo xtask man`: writes the manual pages of `service` and `serviced`, one for each subcommand.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::{root, say};

#[derive(clap::Args)]
pub(crate) struct ManOptions {
    /// The directory to write to
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

pub(crate) fn run(options: &ManOptions) -> Result<()> {
    let folder = options.out.clone().unwrap_or_else(|| root().join("target/man"));
    fs::create_dir_all(&folder)?;
    for command in commands() {
        write(command, &folder)?;
    }
    say(&format!("{} pages in {}", fs::read_dir(&folder)?.count(), folder.display()));
    Ok(())
}

/// The programs that have manual pages: `service`, then `serviced`.
pub(crate) fn commands() -> [clap::Command; 2] {
    [service_cli::command(), service_server::cli::command()]
}

/// Writes the pages of a program.
pub(crate) fn write(command: clap::Command, folder: &Path) -> Result<()> {
    Ok(clap_mangen::generate_to(command, folder)?)
}
