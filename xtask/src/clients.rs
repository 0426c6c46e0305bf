//! `cargo xtask clients`: installs what the tests `browser` and `clients` need besides Debian's packages, under
//! target/clients.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use crate::{root, say_error, tools};

pub(crate) fn run() -> Result<()> {
    let (sources, target) = (root().join("clients"), root().join("target/clients"));
    fs::create_dir_all(&target)?;
    for file in ["package.json", "package-lock.json", "oauth4webapi.mjs", "oidc-provider.mjs"] {
        fs::copy(sources.join(file), target.join(file)).with_context(|| format!("clients/{file} is missing"))?;
    }
    say_error("Installing clients from npm …");
    tools::install_node(&target)?;
    install_python()?;
    say_error("Building a client in Rust …");
    build(&sources.join("rust"), &target.join("rust"))
}

/// Installs the clients from `PyPI` into an environment of their own.
pub(crate) fn install_python() -> Result<()> {
    tools::install_python(&root().join("target/clients/python"), &root().join("clients/requirements.txt"))
}

/// Builds a program that is not part of the workspace.
pub(crate) fn build(manifest: &Path, target: &Path) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "--locked", "--manifest-path"]).arg(manifest.join("Cargo.toml"));
    tools::succeed(cargo.arg("--target-dir").arg(target))
}
