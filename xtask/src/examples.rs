//! `cargo xtask examples`: packs the client libraries, installs them and the examples under target/examples, and runs the test
//! `examples`, in which each signs in at a server and does its work.

use std::{fs, path::Path, process::Command};

use anyhow::Result;

use crate::{build_program, root, say_error, sdk, steps::Steps, tools};

/// The examples that have packages from npm.
const NODE_EXAMPLES: [&str; 2] = ["web-app", "mcp-client"];

pub(crate) fn run() -> Result<()> {
    let (packages, target) = (sdk::pack()?, root().join("target/examples"));
    install_typescript(&target.join("typescript"), &packages.tarball)?;
    let environment = target.join("python");
    tools::install_python(&environment, &root().join("sdk/python/tests/requirements.txt"))?;
    let mut pip = Command::new(environment.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall"]);
    tools::succeed(pip.arg(&packages.wheel))?;
    for name in NODE_EXAMPLES {
        let (source, installed) = (root().join("examples").join(name), target.join(name));
        copy_files(&source, &installed)?;
        tools::install_node_once(&installed)?;
    }
    say_error("Example in Rust …");
    build_program("service-example", !cfg!(debug_assertions))?;
    // All packages at once: of one alone, cargo would build dependencies again with other features.
    Steps::default().test("Client libraries and examples", &["--workspace", "--test", "examples"])
}

/// Installs the library as its users do. It has its dependencies with it, so no registry is asked.
fn install_typescript(folder: &Path, tarball: &Path) -> Result<()> {
    copy_files(&root().join("sdk/typescript/tests"), folder)?;
    fs::write(folder.join("package.json"), r#"{"private":true,"type":"module"}"#)?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--offline", "--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]);
    tools::succeed(npm.arg(tarball.canonicalize()?).current_dir(folder))
}

/// Copies the files of a folder, and not its folders.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
