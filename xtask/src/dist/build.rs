//! Building the programs of a release.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use super::{Built, Platform, Release, programs};
use crate::{
    build_program, root, say_error,
    tools::{succeed, succeed_in_silence},
};

/// The debug build of this machine, without what debuggers need, which is most of it.
pub(super) fn rehearse() -> Result<Built> {
    let platform = if cfg!(target_arch = "aarch64") { Platform::LinuxArm64 } else { Platform::LinuxAmd64 };
    let folder = root().canonicalize()?.join("target/dist-rehearsal");
    fs::create_dir_all(&folder)?;
    for (_, program) in platform.programs() {
        let built = build_program(program, false)?;
        succeed_in_silence(Command::new("strip").arg("-o").arg(folder.join(program)).arg(built))?;
    }
    Ok(Built { platform, programs: folder })
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
    Ok(Built { platform, programs: target_folder.join(platform.triple()).join("dist") })
}

/// The folders whose names would be left in a program, and what is written there instead.
fn path_maps(source: &Path) -> Result<[String; 2]> {
    let cargo = match std::env::var_os("CARGO_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => std::env::home_dir().context("there is no home directory")?.join(".cargo"),
    };
    Ok([format!("{}=/source", source.display()), format!("{}=/cargo", cargo.display())])
}
