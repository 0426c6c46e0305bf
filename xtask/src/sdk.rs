//! `cargo xtask sdk`: lints the API description, generates the client libraries for TypeScript and Python from it, and packs
//! them, under target/sdk. The generated code is in no commit.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{root, say, say_error, tools};

/// The folders and files that are not packed: what the build makes, and what only the tests need.
const NOT_STAGED: [&str; 5] = ["node_modules", "dist", "tests", "__pycache__", "generated"];

/// The packed libraries.
pub(crate) struct Packages {
    /// For `npm install`.
    pub(crate) tarball: PathBuf,
    /// For `pip install`.
    pub(crate) wheel: PathBuf,
}

pub(crate) fn run() -> Result<()> {
    let packages = pack()?;
    for package in [packages.tarball, packages.wheel] {
        say(&package.canonicalize()?.display().to_string());
    }
    Ok(())
}

/// Generates and packs both libraries.
pub(crate) fn pack() -> Result<Packages> {
    let target = root().join("target/sdk");
    fs::create_dir_all(&target)?;
    let description = target.join("openapi.json");
    fs::write(&description, service_api::openapi::document("https://service.example").to_string())?;
    for old in fs::read_dir(&target)? {
        let path = old?.path();
        if path.extension().is_some_and(|ending| ending == "tgz" || ending == "whl") {
            fs::remove_file(path)?;
        }
    }
    Ok(Packages { tarball: pack_typescript(&target, &description)?, wheel: pack_python(&target)? })
}

fn pack_typescript(target: &Path, description: &Path) -> Result<PathBuf> {
    let staged = target.join("typescript");
    for made in ["src", "dist"] {
        remove_folder(&staged.join(made))?;
    }
    stage(&root().join("sdk/typescript"), &staged)?;
    tools::install_node_once(&staged)?;
    fs::copy(description, staged.join("openapi.json"))?;
    say_error("Library for TypeScript …");
    let steps = [["run", "lint"], ["run", "generate"], ["run", "build"], ["pack", "--pack-destination=.."]];
    for arguments in steps {
        let mut npm = Command::new("npm");
        npm.args(arguments).arg("--silent").current_dir(&staged);
        // The linter reports to its maker unless it is told not to.
        npm.env("REDOCLY_TELEMETRY", "off").env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true");
        tools::succeed_in_silence(&mut npm)?;
    }
    find(target, "tgz")
}

fn pack_python(target: &Path) -> Result<PathBuf> {
    let (sources, staged) = (root().join("sdk/python"), target.join("python"));
    remove_folder(&staged)?;
    stage(&sources, &staged)?;
    tools::install_python(&target.join("environment"), &sources.join("requirements.txt"))?;
    say_error("Library for Python …");
    let mut generate = Command::new("../environment/bin/openapi-python-client");
    generate
        .args(["generate", "--path", "../openapi.json", "--config", "generator.yml", "--meta", "none"])
        .args(["--output-path", "src/service_sdk/generated", "--fail-on-warning"])
        .current_dir(&staged);
    tools::succeed(&mut generate)?;
    let mut build = Command::new("../environment/bin/python");
    build.args(["-m", "build", "--wheel", "--no-isolation", "--outdir", ".."]).current_dir(&staged);
    tools::succeed_in_silence(&mut build)?;
    find(target, "whl")
}

/// Copies a folder. What it holds already stays, so that packages do not have to be installed again.
fn stage(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if NOT_STAGED.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            stage(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn remove_folder(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// The one file with this ending.
fn find(folder: &Path, ending: &str) -> Result<PathBuf> {
    let mut paths = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let found = paths.find(|path| path.extension().is_some_and(|one| one == ending));
    found.with_context(|| format!("nothing was packed as .{ending}"))
}
