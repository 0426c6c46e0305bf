//! The image: `serviced` and nothing else.
//!
//! It is written as it is: one layer, its configuration and a list of both. Programs that build images write the name of the
//! machine and a random number into each, so that no two are equal.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Built, Release, VERSION, archives, programs};
use crate::say_error;

/// The user and group that `serviced` runs as: no system has one of this number by default.
const USER: &str = "65532:65532";

/// Nanoseconds, in which health checks are described.
const SECOND: u64 = 1_000_000_000;

/// Writes the image as an archive that `podman load`, `docker load` and `skopeo copy` read. Returns the file.
pub(super) fn pack(release: &Release, built: &Built) -> Result<PathBuf> {
    let architecture = built.platform.architecture();
    say_error(&format!("Packing the image for {architecture} …"));
    let folder = tempfile::tempdir()?;
    let parts = folder.path();
    let files = parts.join("files");
    add(&built.programs.join("serviced"), &files.join("serviced"))?;
    for library in &built.libraries {
        add(library, &files.join(library.strip_prefix("/").context("a library has no absolute path")?))?;
    }
    let layer = parts.join("layer.tar");
    tar(release, &files, &names(&files)?, &layer)?;
    let layer_digest = digest(&layer)?;
    fs::rename(layer, parts.join(format!("{layer_digest}.tar")))?;
    let described = parts.join("config.json");
    fs::write(&described, describe(release, architecture, &layer_digest)?.to_string())?;
    let described_digest = digest(&described)?;
    fs::rename(described, parts.join(format!("{described_digest}.json")))?;
    let contents = [format!("{described_digest}.json"), format!("{layer_digest}.tar"), "manifest.json".to_owned()];
    let manifest = json!([{
        "Config": contents[0],
        "RepoTags": [format!("serviced:{VERSION}-{architecture}")],
        "Layers": [contents[1]],
    }]);
    fs::write(parts.join("manifest.json"), manifest.to_string())?;
    let archive = release.out.join(file_name(architecture));
    tar(release, parts, &contents, &archive)?;
    Ok(archive)
}

/// The name of the archive with the image.
pub(super) fn file_name(architecture: &str) -> String {
    format!("serviced-{VERSION}-image-{architecture}.tar")
}

/// What is in the image's configuration, in the format of Docker: the other one has no health checks.
fn describe(release: &Release, architecture: &str, layer: &str) -> Result<Value> {
    let created = Timestamp::from_second(release.time.parse()?)?.to_string();
    Ok(json!({
        "architecture": architecture,
        "os": "linux",
        "created": created,
        "config": {
            "User": USER,
            "ExposedPorts": { "8080/tcp": {}, "9090/tcp": {} },
            "Entrypoint": ["/serviced"],
            "Cmd": ["run"],
            "WorkingDir": "/",
            "Healthcheck": {
                "Test": ["CMD", "/serviced", "healthcheck"],
                "Interval": 5 * SECOND,
                "Timeout": 3 * SECOND,
                "StartPeriod": 60 * SECOND,
            },
            "Labels": {
                "org.opencontainers.image.title": "serviced",
                "org.opencontainers.image.description": "The access and authentication service",
                "org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
                "org.opencontainers.image.version": VERSION,
                "org.opencontainers.image.revision": release.commit,
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer}")] },
        "history": [{ "created": created, "created_by": "cargo xtask dist" }],
    }))
}

/// Copies a file that every user can read and execute, and none can change.
fn add(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().context("a file is in no folder")?;
    fs::create_dir_all(folder)?;
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(0o555))?)
}

/// The names in a folder.
fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn tar(release: &Release, folder: &Path, names: &[String], archive: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(archives::SAME_BYTES).arg("--mode=go-w").arg(format!("--mtime=@{}", release.time));
    tar.arg("--create").arg("--file").arg(archive).args(names);
    programs::run(tar.current_dir(folder))
}

fn digest(file: &Path) -> Result<String> {
    let output = Command::new("sha256sum").arg(file).output().context("sha256sum does not run")?;
    ensure!(output.status.success(), "sha256sum failed: {}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout)?;
    Ok(said.split(' ').next().context("sha256sum says nothing")?.to_owned())
}
