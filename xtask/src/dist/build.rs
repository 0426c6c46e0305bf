//! Building the programs of a release.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use super::{Built, Platform, Release, programs};
use crate::{
    build_program, root, say_error,
    tools::{succeed, succeed_in_silence},
};

/// The debug build of this machine, without what debuggers need, which is most of it.
pub(super) fn rehearse() -> Result<Built> {
    let platform = Platform::HERE;
    let folder = root().canonicalize()?.join("target/dist-rehearsal");
    fs::create_dir_all(&folder)?;
    for (_, program) in platform.programs() {
        let built = build_program(program, false)?;
        succeed_in_silence(Command::new("strip").arg("-o").arg(folder.join(program)).arg(built))?;
    }
    let libraries = find_libraries(&folder.join("serviced"))?;
    Ok(Built { platform, programs: folder, libraries })
}

/// The shared libraries that a program needs, and what loads them.
fn find_libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("ldd does not run")?;
    ensure!(output.status.success(), "ldd failed: {}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout)?;
    Ok(said.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect())
}

/// Builds the programs for a platform from the repository in `source`.
pub(super) fn build(platform: Platform, release: &Release, source: &Path) -> Result<Built> {
    say_error(&format!("Building for {} …", platform.name()));
    succeed_in_silence(Command::new("rustup").args(["target", "add", platform.triple()]).current_dir(root()))?;
    let target_folder = source.join("target/dist-build");
    let mut build = Command::new("cargo");
    let mut found_in = vec![programs::auditable()?];
    if platform.is_linux() {
        found_in.push(programs::python()?);
    }
    programs::add_to_path(&mut build, &found_in)?;
    // zig links programs for Linux on any machine, with its own copy of musl.
    build.args(["auditable", if platform.is_linux() { "zigbuild" } else { "build" }]);
    build.args(["--locked", "--profile", "dist", "--target", platform.triple(), "--target-dir"]).arg(&target_folder);
    for (package, _) in platform.programs() {
        build.args(["--package", package]);
    }
    let maps = path_maps(source)?;
    let of_rust: Vec<_> = maps.iter().map(|map| format!("--remap-path-prefix={map}")).collect();
    let of_c: Vec<_> = maps.iter().map(|map| format!("-ffile-prefix-map={map}")).collect();
    build
        .env("CARGO_ENCODED_RUSTFLAGS", of_rust.join("\u{1f}"))
        .env("CFLAGS", of_c.join(" "))
        .env("SERVICE_BUILD_COMMIT", &release.commit)
        .env("SOURCE_DATE_EPOCH", &release.time)
        .env("CARGO_INCREMENTAL", "0");
    succeed(build.current_dir(source))?;
    let programs = target_folder.join(platform.triple()).join("dist");
    Ok(Built { platform, programs, libraries: Vec::new() })
}

/// The folders whose names would be left in a program, and what is written there instead.
fn path_maps(source: &Path) -> Result<[String; 2]> {
    let cargo = match std::env::var_os("CARGO_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => std::env::home_dir().context("there is no home directory")?.join(".cargo"),
    };
    Ok([format!("{}=/source", source.display()), format!("{}=/cargo", cargo.display())])
}
