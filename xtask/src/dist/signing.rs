//! The checksums of a release, and their signature.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};

use super::{Release, VERSION, list, programs};
use crate::say_error;

/// The file with the checksum of every other file.
pub(super) const CHECKSUMS: &str = "SHA256SUMS";

/// Writes the checksums. Signs them if there is a key: then one signature covers every file.
pub(super) fn sign(release: &Release, key: Option<&Path>) -> Result<()> {
    let mut sha256sum = Command::new("sha256sum");
    sha256sum.arg("--").args(list(release)?).current_dir(&release.out);
    let output = sha256sum.output().context("sha256sum does not run")?;
    ensure!(output.status.success(), "sha256sum failed: {}", String::from_utf8_lossy(&output.stderr));
    fs::write(release.out.join(CHECKSUMS), output.stdout)?;
    let Some(key) = key else {
        say_error("Not signed: --key names the key that signs");
        return Ok(());
    };
    let key = key.canonicalize().with_context(|| format!("there is no key {}", key.display()))?;
    // It is signed too, and shown when the signature is verified.
    let comment = format!("service {VERSION} commit {}", release.commit);
    let mut minisign = Command::new("minisign");
    minisign.args(["-S", "-W", "-t", &comment, "-m", CHECKSUMS, "-s"]).arg(key);
    programs::run(minisign.current_dir(&release.out))
}
