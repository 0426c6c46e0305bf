//! Checking what was packed: a rehearsal is signed with a key of its own, unpacked, and looked at.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use super::{Built, Release, VERSION, archives, contents, image, packages, signing};
use crate::{root, say, tools::succeed_in_silence};

/// The limit of what systemd's own check finds exposed: 0 is nothing, 10 is everything.
const EXPOSURE_LIMIT: f64 = 2.0;

/// Files that the package of `serviced` must have.
const IN_PACKAGE: [&str; 6] = [
    "./usr/bin/serviced",
    "./usr/lib/systemd/system/serviced.service",
    "./usr/lib/sysusers.d/serviced.conf",
    "./usr/share/serviced/serviced.example.toml",
    "./usr/share/man/man1/serviced-run.1",
    "./usr/share/doc/serviced/THIRD-PARTY-LICENCES.txt",
];

/// Makes a key that signs this rehearsal and nothing else.
pub(super) fn make_key(folder: &TempDir) -> Result<()> {
    let mut minisign = Command::new("minisign");
    minisign.args(["-G", "-W", "-s", "key", "-p", "key.pub"]).current_dir(folder.path());
    succeed_in_silence(&mut minisign)
}

/// Checks the release in every way that needs no other machine.
pub(super) fn check(release: &Release, built: &Built, key: &TempDir) -> Result<()> {
    check_signature(release, key)?;
    check_archive(release, built)?;
    check_package(release, built)?;
    check_same_bytes(release, built)?;
    check_unit()
}

/// The signature is right, and no longer when one checksum has changed.
fn check_signature(release: &Release, key: &TempDir) -> Result<()> {
    let verify = |folder: &Path| {
        let mut minisign = Command::new("minisign");
        minisign.args(["-V", "-q", "-m", signing::CHECKSUMS, "-p"]).arg(key.path().join("key.pub"));
        succeed_in_silence(minisign.current_dir(folder))
    };
    verify(&release.out)?;
    let mut sums = Command::new("sha256sum");
    succeed_in_silence(sums.args(["--check", "--quiet", signing::CHECKSUMS]).current_dir(&release.out))?;
    let other = tempfile::tempdir()?;
    let signature = format!("{}.minisig", signing::CHECKSUMS);
    fs::copy(release.out.join(&signature), other.path().join(&signature))?;
    let changed = fs::read_to_string(release.out.join(signing::CHECKSUMS))?.replacen('a', "b", 1);
    fs::write(other.path().join(signing::CHECKSUMS), changed)?;
    ensure!(verify(other.path()).is_err(), "a changed checksum has a valid signature");
    say("The signature is valid, and not for a changed checksum");
    Ok(())
}

/// The programs run from the archive.
fn check_archive(release: &Release, built: &Built) -> Result<()> {
    let (folder, name) = (tempfile::tempdir()?, archives::name(built.platform));
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--file").arg(release.out.join(format!("{name}.tar.gz")));
    succeed_in_silence(tar.current_dir(folder.path()))?;
    let unpacked = folder.path().join(name);
    for (_, program) in built.platform.programs() {
        let output = Command::new(unpacked.join(program)).arg("--version").output()?;
        let said = String::from_utf8(output.stdout)?;
        ensure!(said.starts_with(&format!("{program} {VERSION}")), "{program} --version says {said}");
        let bill: serde_json::Value = serde_json::from_slice(&fs::read(unpacked.join(format!("{program}.cdx.json")))?)?;
        let listed = bill["components"].as_array().map_or(0, Vec::len);
        ensure!(listed > 100, "the bill of materials of {program} lists {listed} components");
        say(&format!("{}: {listed} components", said.trim()));
    }
    let licences = fs::read_to_string(unpacked.join("THIRD-PARTY-LICENCES.txt"))?;
    for known in ["tokio ", "aws-lc-sys ", "rustls "] {
        ensure!(licences.contains(&format!("\n{known}")), "the licences do not name {known}");
    }
    Ok(())
}

/// The package has its files, and names no folder of this machine.
fn check_package(release: &Release, built: &Built) -> Result<()> {
    let package = release.out.join(packages::file_name(built.platform.architecture()));
    let mut list = Command::new("dpkg-deb");
    let output = list.arg("--contents").arg(&package).output().context("dpkg-deb does not run")?;
    let listed = String::from_utf8(output.stdout)?;
    for file in IN_PACKAGE {
        ensure!(listed.contains(file), "{} has no {file}:\n{listed}", package.display());
    }
    let source = root().canonicalize()?.display().to_string();
    ensure!(!listed.contains(&source), "{} names {source}", package.display());
    say(&format!("serviced.deb has {} files and folders", listed.lines().count()));
    Ok(())
}

/// Packing again gives the same bytes.
fn check_same_bytes(release: &Release, built: &Built) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let again = Release { out: folder.path().to_owned(), commit: release.commit.clone(), time: release.time.clone() };
    let gathered = contents::gather(&again, built)?;
    archives::pack(&again, built, &gathered)?;
    packages::pack(&again, built, &gathered)?;
    image::pack(&again, built)?;
    fs::remove_dir_all(&gathered)?;
    for name in super::list(&again)? {
        ensure!(
            fs::read(release.out.join(&name))? == fs::read(again.out.join(&name))?,
            "{name} differs when packed again"
        );
    }
    say("Archives, packages and the image are equal when packed again");
    Ok(())
}

/// What systemd itself says of the unit.
fn check_unit() -> Result<()> {
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["security", "--offline=true", "--no-pager", "--json=off"]);
    analyze.arg(root().canonicalize()?.join("deploy/systemd/serviced.service"));
    let output = analyze.output().context("systemd-analyze does not run: `.ci/install rehearsal` installs it")?;
    let said = String::from_utf8(output.stdout)? + &String::from_utf8_lossy(&output.stderr);
    let level = said.split("exposure level for serviced.service: ").nth(1).and_then(|rest| rest.split(' ').next());
    let level: f64 = level.with_context(|| said.clone())?.parse()?;
    ensure!(level <= EXPOSURE_LIMIT, "systemd-analyze security: {level}, more than {EXPOSURE_LIMIT}\n{said}");
    say(&format!("systemd-analyze security: {level}"));
    Ok(())
}
