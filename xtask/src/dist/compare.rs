//! Building the same commit in another folder: the programs must be equal, byte for byte.

use std::{fs, process::Command};

use anyhow::{Result, ensure};

use super::{Built, Release, build};
use crate::{root, say, tools::succeed_in_silence};

/// Builds the programs in a clone, and compares them with `built`.
pub(super) fn build_elsewhere(built: &Built, release: &Release) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = folder.path().canonicalize()?.join("a-folder-with-a-longer-name");
    succeed_in_silence(Command::new("git").args(["clone", "--quiet", "--no-checkout"]).arg(root()).arg(&source))?;
    succeed_in_silence(Command::new("git").args(["checkout", "--quiet", &release.commit]).current_dir(&source))?;
    let again = build::build(built.platform, release, &source)?;
    for (_, program) in built.platform.programs() {
        let (one, other) = (fs::read(built.programs.join(program))?, fs::read(again.programs.join(program))?);
        let differing = one.iter().zip(&other).filter(|(one, other)| one != other).count();
        ensure!(
            one == other,
            "{program} for {} is not reproducible: {} and {} bytes, {differing} of them differ",
            built.platform.name(),
            one.len(),
            other.len()
        );
        say(&format!("{program} for {}: equal in two folders, {} bytes", built.platform.name(), one.len()));
    }
    Ok(())
}
