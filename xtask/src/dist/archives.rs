//! The archives of a release: `.tar.gz`, and `.zip` for Windows. The same contents give the same bytes.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::{Built, Platform, Release, VERSION, programs};

/// Options of tar with which the same files give the same bytes.
pub(super) const SAME_BYTES: [&str; 5] = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"];

/// The name of an archive, and of the folder in it.
pub(super) fn name(platform: Platform) -> String {
    format!("service-{VERSION}-{}", platform.name())
}

/// Packs the folder with the contents.
pub(super) fn pack(release: &Release, built: &Built, contents: &Path) -> Result<()> {
    let above = contents.parent().context("the contents have no directory")?;
    let folder = name(built.platform);
    if built.platform == Platform::WindowsAmd64 {
        // zip stores local times, and the order in which it is given files.
        let archive = release.out.join(format!("{folder}.zip"));
        let mut zip = Command::new("sh");
        zip.args([
            "-c",
            "find \"$1\" -exec touch -d \"@$2\" {} + && find \"$1\" -type f | LC_ALL=C sort | zip -q -X -@ \"$3\"",
            "sh",
        ]);
        return programs::run(zip.args([&folder, &release.time]).arg(archive).env("TZ", "UTC").current_dir(above));
    }
    let archive = release.out.join(format!("{folder}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(SAME_BYTES).arg("--use-compress-program=gzip -n").arg(format!("--mtime=@{}", release.time));
    tar.arg("--create").arg("--file").arg(archive).arg(folder);
    programs::run(tar.current_dir(above))
}
