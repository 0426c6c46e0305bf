//! What belongs to the programs of a release, in the folder that becomes the archive.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use super::{Built, Release, archives, licences, programs};
use crate::{man, root, say_error, tools::succeed_in_silence};

/// Files of the repository, and where they are in the archive.
const FILES: [(&str, &str); 6] = [
    ("LICENSE", "LICENSE"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("crates/service-cli/src/commands/completion/service.bash", "completions/service.bash"),
    ("crates/service-cli/src/commands/completion/service.zsh", "completions/_service"),
    ("crates/service-cli/src/commands/completion/service.fish", "completions/service.fish"),
];

/// Files that only archives with `serviced` have.
const FILES_FOR_OPERATORS: [(&str, &str); 3] = [
    ("serviced.example.toml", "serviced.example.toml"),
    ("deploy/systemd/serviced.service", "systemd/serviced.service"),
    ("deploy/systemd/serviced.sysusers", "systemd/serviced.sysusers"),
];

/// Gathers the programs and what belongs to them; returns the folder.
pub(super) fn gather(release: &Release, built: &Built) -> Result<PathBuf> {
    let folder = release.out.join(archives::name(built.platform));
    for (_, program) in built.platform.programs() {
        copy(&built.programs.join(program), &folder.join(program))?;
    }
    let files = FILES.iter().chain(if built.platform.is_linux() { &FILES_FOR_OPERATORS[..] } else { &[] });
    for (from, to) in files {
        copy(&root().join(from), &folder.join(to))?;
    }
    let pages = folder.join("man");
    fs::create_dir_all(&pages)?;
    for command in man::commands().into_iter().take(if built.platform.is_linux() { 2 } else { 1 }) {
        man::write(command, &pages)?;
    }
    fs::write(folder.join("THIRD-PARTY-LICENCES.txt"), licences::collect(built.platform)?)?;
    write_bills_of_materials(release, built, &folder)?;
    set_modes(built, &folder)?;
    Ok(folder)
}

/// Writes the bill of materials of each program, in the format of `CycloneDX`. The tool writes one beside every manifest, with
/// the folder that the repository is in, so it gets a copy of the repository.
fn write_bills_of_materials(release: &Release, built: &Built, folder: &Path) -> Result<()> {
    say_error(&format!("Bills of materials for {} …", built.platform.name()));
    let copy = tempfile::tempdir()?;
    let source = copy.path().canonicalize()?;
    let mut tar = Command::new("sh");
    let script = "tar --exclude=./target --exclude=node_modules --exclude=./.git --create --file - . \
        | tar --extract --file - --directory \"$1\"";
    succeed_in_silence(tar.args(["-c", script, "sh"]).arg(&source).current_dir(root()))?;
    let mut cyclonedx = Command::new("cargo");
    programs::add_to_path(&mut cyclonedx, &[programs::cyclonedx()?])?;
    cyclonedx
        .args(["cyclonedx", "--format", "json", "--spec-version", "1.5", "--target", built.platform.triple()])
        .args(["--no-build-deps", "--override-filename", "bill"])
        .env("SOURCE_DATE_EPOCH", &release.time)
        .current_dir(&source);
    succeed_in_silence(&mut cyclonedx)?;
    for (package, program) in built.platform.programs() {
        let bill = fs::read_to_string(source.join("crates").join(package).join("bill.json"))
            .with_context(|| format!("there is no bill of materials of {package}"))?;
        let file = folder.join(format!("{}.cdx.json", program.trim_end_matches(".exe")));
        fs::write(file, bill.replace(&source.display().to_string(), "/source"))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().context("a file is in no folder")?)?;
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

/// Makes modes independent of this machine.
fn set_modes(built: &Built, folder: &Path) -> Result<()> {
    succeed_in_silence(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(folder))?;
    for (_, program) in built.platform.programs() {
        succeed_in_silence(Command::new("chmod").arg("0755").arg(folder.join(program)))?;
    }
    Ok(())
}
