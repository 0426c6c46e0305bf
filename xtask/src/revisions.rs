//! Other commits of the repository, and `serviced` built from them.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Result, ensure};

use crate::{root, say_error};

/// Builds `serviced` of another revision in a temporary work tree; returns the path of the program.
pub(crate) fn build(revision: &str, release: bool) -> Result<PathBuf> {
    let commit = git(&["rev-parse", "--verify", &format!("{revision}^{{commit}}")])?;
    let (commit, profile) = (commit.as_str(), if release { "release" } else { "debug" });
    let folder = root().join("target/against");
    let program = folder.join(format!("serviced-{profile}-{commit}"));
    if program.exists() {
        return Ok(program);
    }
    fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    let tree = folder.join("tree");
    let path = tree.display().to_string();
    // One may be left from an interrupted build.
    drop(git(&["worktree", "remove", "--force", &path]));
    git(&["worktree", "add", "--detach", &path, commit])?;
    say_error(&format!("Building {revision} …"));
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "--locked", "--package", "service-server", "--bin", "serviced"]);
    build.current_dir(&tree).env("CARGO_TARGET_DIR", folder.join("target"));
    if release {
        build.arg("--release");
    }
    let built = build.status()?;
    git(&["worktree", "remove", "--force", &path])?;
    ensure!(built.success(), "{revision} does not build");
    fs::copy(folder.join("target").join(profile).join("serviced"), &program)?;
    Ok(program)
}

/// Runs git in the repository; returns what it printed.
pub(crate) fn git(arguments: &[&str]) -> Result<String> {
    let output = Command::new("git").args(arguments).current_dir(root()).output()?;
    ensure!(
        output.status.success(),
        "git {} failed: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
