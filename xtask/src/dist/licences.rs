//! The licences of everything that is compiled into the programs, as their authors require it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::Platform;
use crate::root;

/// How the names of files with a licence begin.
const FILES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// A package, as `cargo metadata` describes it.
#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    authors: Vec<String>,
    repository: Option<String>,
    /// `None`: it is one of ours.
    source: Option<String>,
    manifest_path: PathBuf,
}

/// Returns one text with every package and its licence. A text that several packages share is there once.
pub(super) fn collect(platform: Platform) -> Result<String> {
    let linked = list_linked(platform)?;
    let metadata: Metadata = serde_json::from_slice(&cargo(&["metadata", "--locked", "--format-version", "1"])?)?;
    let mut packages: Vec<_> = metadata
        .packages
        .iter()
        .filter(|package| {
            package.source.is_some() && linked.contains(&format!("{} v{}", package.name, package.version))
        })
        .collect();
    packages.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    let mut text = String::from("These packages are part of the programs. Their licences follow.\n\n");
    let mut by_licence = BTreeMap::<String, Vec<String>>::new();
    for package in packages {
        let label = format!("{} {}", package.name, package.version);
        let license = package.license.as_deref().unwrap_or("see its licence below");
        writeln!(text, "{label}: {license}, {}", package.repository.as_deref().unwrap_or("no address"))?;
        let folder = package.manifest_path.parent().context("a package is in no folder")?;
        let mut found = read_licences(folder)?;
        if found.is_empty() {
            found.insert(format!("{license}\nAuthors: {}\n", package.authors.join(", ")));
        }
        for licence in found {
            by_licence.entry(licence).or_default().push(label.clone());
        }
    }
    for (licence, packages) in by_licence {
        write!(text, "\n{}\n{}\n\n{}\n", "-".repeat(80), packages.join(", "), licence.trim_end())?;
    }
    Ok(text)
}

/// The packages that are linked into the programs, with their versions.
fn list_linked(platform: Platform) -> Result<BTreeSet<String>> {
    let mut arguments = vec!["tree", "--locked", "--edges", "normal", "--prefix", "none", "--format", "{p}"];
    arguments.extend(["--target", platform.triple()]);
    for (package, _) in platform.programs() {
        arguments.extend(["--package", package]);
    }
    let lines = String::from_utf8(cargo(&arguments)?)?;
    Ok(lines.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect())
}

fn read_licences(folder: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && FILES.iter().any(|prefix| name.starts_with(prefix)) {
            found.insert(String::from_utf8_lossy(&fs::read(path)?).replace('\r', ""));
        }
    }
    Ok(found)
}

fn cargo(arguments: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new("cargo").args(arguments).current_dir(root()).output()?;
    ensure!(output.status.success(), "cargo {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}
