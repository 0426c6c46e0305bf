//! What `cargo xtask` runs: says what will happen, builds what the command needs with cargo's progress visible, and
//! becomes it. It has no dependencies, so that its first line appears within a second or two of the first call.

use std::{
    env,
    ffi::OsString,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

/// The time of the first build, as the README says it.
const FIRST_BUILD: &str = "The first build takes about 6 minutes on 2 cores, later ones take seconds.";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    match start(&arguments) {
        Ok(code) => code,
        Err(error) => {
            say(&format!("cargo xtask: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn start(arguments: &[OsString]) -> Result<ExitCode, String> {
    let here = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let programs = here.parent().ok_or("this program has no directory")?;
    let (program, built, arguments) = match arguments.split_first() {
        Some((command, rest)) if command == "dev" => ("service-dev", &["service-dev", "service"][..], rest),
        _ => ("xtask", &["xtask"][..], arguments),
    };
    announce(program, programs);
    let mut build = Command::new(cargo());
    // All packages at once: of some alone, cargo would build dependencies again with other features.
    build.args(["build", "--workspace"]).current_dir(root());
    for name in built {
        build.args(["--bin", name]);
    }
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    let status = build.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !status.success() {
        return Ok(ExitCode::FAILURE);
    }
    // Returns only if it fails: otherwise this process becomes the program, and gets its signals.
    let error = Command::new(programs.join(program)).args(arguments).exec();
    Err(format!("cannot run {program}: {error}"))
}

fn announce(program: &str, programs: &Path) {
    let is_first = !programs.join(program).exists();
    match (program, is_first) {
        ("service-dev", true) => say(&format!("Building the development server and the command. {FIRST_BUILD}")),
        ("service-dev", false) => say("Building what has changed of the development server and the command …"),
        (_, true) => say(&format!("Building the project's commands. {FIRST_BUILD}")),
        _ => {}
    }
}

/// The cargo that runs this program, which has the toolchain of the repository.
fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[expect(clippy::print_stderr, reason = "what happens meanwhile")]
fn say(text: &str) {
    eprintln!("{text}");
}
