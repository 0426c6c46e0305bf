//! The programs that building and packing need, at fixed versions, below target/tools.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    root, say_error,
    tools::{install_python, succeed},
};

/// The folder with the linker for other systems, and with nfpm.
pub(super) fn python() -> Result<PathBuf> {
    let folder = root().canonicalize()?.join("target/tools/dist");
    install_python(&folder, &root().join("xtask/tools/dist-requirements.txt"))?;
    Ok(folder.join("bin"))
}

/// The program that puts the list of dependencies into another, where `cargo audit bin` finds it.
pub(super) fn auditable() -> Result<PathBuf> {
    from_cargo("cargo-auditable", "0.7.7")
}

/// The program that writes bills of materials.
pub(super) fn cyclonedx() -> Result<PathBuf> {
    from_cargo("cargo-cyclonedx", "0.5.9")
}

/// Compiles a program once; returns the folder that it is in.
fn from_cargo(name: &str, version: &str) -> Result<PathBuf> {
    let folder = root().canonicalize()?.join(format!("target/tools/{name}-{version}"));
    if !folder.join("bin").join(name).exists() {
        say_error(&format!("{name} {version} …"));
        let mut install = Command::new("cargo");
        // It runs for seconds only.
        install.args(["install", "--locked", "--quiet", "--debug", "--version", version, "--root"]).arg(&folder);
        succeed(install.arg(name).current_dir(root()))?;
    }
    Ok(folder.join("bin"))
}

/// Puts folders in front of those in which programs are looked for.
pub(super) fn add_to_path(command: &mut Command, folders: &[PathBuf]) -> Result<()> {
    let present = std::env::var_os("PATH").unwrap_or_default();
    let all = folders.iter().cloned().chain(std::env::split_paths(&present));
    command.env("PATH", std::env::join_paths(all)?);
    Ok(())
}

/// Runs a program that has to be installed; says how if it is not.
pub(super) fn run(command: &mut Command) -> Result<()> {
    let program = Path::new(command.get_program()).display().to_string();
    let status = command.status().with_context(|| format!("{program} does not run: `.ci/install dist` installs it"))?;
    ensure!(status.success(), "{command:?} failed");
    Ok(())
}
