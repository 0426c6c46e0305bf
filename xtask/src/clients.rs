//! `cargo xtask clients`: installs what the tests `browser` and `clients` use beside Debian's packages, under target/clients.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};

use crate::{root, say_error};

pub(crate) fn run() -> Result<()> {
    let (sources, target) = (root().join("clients"), root().join("target/clients"));
    fs::create_dir_all(&target)?;
    for file in ["package.json", "package-lock.json", "oauth4webapi.mjs"] {
        fs::copy(sources.join(file), target.join(file)).with_context(|| format!("clients/{file} is missing"))?;
    }
    say_error("Clients from npm …");
    install(Command::new("npm").args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(&target))?;
    install_python()?;
    say_error("A client in Rust …");
    build(&sources.join("rust"), &target.join("rust"))
}

/// What comes from `PyPI`, into an environment of its own.
pub(crate) fn install_python() -> Result<()> {
    say_error("Clients from PyPI …");
    let python = root().join("target/clients/python");
    fs::create_dir_all(&python)?;
    if !python.join("bin/python").exists() {
        install(Command::new("python3").args(["-m", "venv"]).arg(&python))?;
    }
    let requirements = root().join("clients/requirements.txt");
    install(Command::new(python.join("bin/python")).args(["-m", "pip", "install", "--quiet", "-r"]).arg(requirements))
}

fn build(manifest: &Path, target: &Path) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "--locked", "--manifest-path"]).arg(manifest.join("Cargo.toml"));
    install(cargo.arg("--target-dir").arg(target))
}

fn install(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?} does not run"))?;
    ensure!(status.success(), "{command:?} failed");
    Ok(())
}
