//! `cargo xtask man`: writes the manual pages of `service`, one for each subcommand.

use std::{fs, path::PathBuf};

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
    clap_mangen::generate_to(service_cli::command(), &folder)?;
    say(&format!("{} pages in {}", fs::read_dir(&folder)?.count(), folder.display()));
    Ok(())
}
