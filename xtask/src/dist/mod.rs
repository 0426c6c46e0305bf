//! `cargo xtask dist`: everything that a release consists of, in target/dist.
//!
//! 1. Build the programs for each platform, with the list of their dependencies inside.
//! 2. Gather what belongs to them: manual pages, completions, licences, the unit, the bill of materials.
//! 3. Pack archives, packages for Debian and Red Hat, and images.
//! 4. Write the checksums, and sign them.
//!
//! Paths are mapped to fixed names, and every packed file has the time of the commit, so that builds in two folders are equal,
//! byte for byte. `--compare` checks that.

mod archives;
mod build;
mod compare;
mod contents;
mod image;
mod licences;
mod packages;
mod platforms;
mod programs;
mod rehearsal;
mod signing;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};

use self::platforms::Platform;
use crate::{revisions::git, root, say, say_error};

/// The version of the release: all packages of the workspace have the same.
const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(clap::Args)]
pub(crate) struct DistOptions {
    /// What to build for; can be repeated. By default everything that can be built on Linux
    #[arg(long = "platform", value_name = "PLATFORM", conflicts_with = "rehearse")]
    platforms: Vec<Platform>,
    /// Pack the debug build of this machine instead, and check what was packed
    #[arg(long)]
    rehearse: bool,
    /// The secret key that signs the checksums, as `minisign -G -W` makes it
    #[arg(long, value_name = "FILE", conflicts_with = "rehearse")]
    key: Option<PathBuf>,
    /// The new directory to write to, instead of target/dist or, for a rehearsal, target/rehearsal
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Build the programs again in another folder, and compare them
    #[arg(long, conflicts_with = "rehearse")]
    compare: bool,
}

/// What every part of a release has in common.
struct Release {
    /// The commit that it is built from.
    commit: String,
    /// The time of that commit, in seconds since 1970: every packed file has it.
    time: String,
    /// The directory that the release is written to.
    out: PathBuf,
}

impl Release {
    /// The release of the commit that is checked out.
    fn of_commit(out: PathBuf) -> Result<Self> {
        let changed = git(&["status", "--porcelain", "--untracked-files=normal"])?;
        ensure!(changed.is_empty(), "a release is built from a commit, and these files differ from it:\n{changed}");
        Ok(Self { commit: git(&["rev-parse", "HEAD"])?, time: git(&["log", "-1", "--format=%ct"])?, out })
    }

    /// A rehearsal does not ask Git, so that an exported tree can be packed too.
    fn rehearsal(out: PathBuf) -> Self {
        Self { commit: "unknown".to_owned(), time: "1767225600".to_owned(), out }
    }
}

/// A platform with its programs, which have been built.
struct Built {
    platform: Platform,
    /// The directory with the programs.
    programs: PathBuf,
    /// The shared libraries that `serviced` needs: none, except in a rehearsal.
    libraries: Vec<PathBuf>,
}

/// The image of the release in target/dist, if there is one.
pub(crate) fn released_image() -> Option<PathBuf> {
    released(&image::file_name(Platform::HERE.architecture()))
}

/// The package for Debian of the release in target/dist, if there is one.
pub(crate) fn released_package() -> Option<PathBuf> {
    released(&packages::file_name(Platform::HERE.architecture()))
}

fn released(name: &str) -> Option<PathBuf> {
    let file = root().join("target/dist").join(name);
    file.exists().then_some(file)
}

/// Packs the image of the debug build in `out`; returns its file.
pub(crate) fn rehearse_image(out: &Path) -> Result<PathBuf> {
    image::pack(&Release::rehearsal(out.to_owned()), &build::rehearse()?)
}

/// Packs the package for Debian of the debug build in `out`; returns its file.
pub(crate) fn rehearse_package(out: &Path) -> Result<PathBuf> {
    let (release, built) = (Release::rehearsal(out.to_owned()), build::rehearse()?);
    packages::pack(&release, &built, &contents::gather(&release, &built)?)?;
    Ok(out.join(packages::file_name(built.platform.architecture())))
}

pub(crate) fn run(options: &DistOptions) -> Result<()> {
    // A rehearsal is not where drills look for a release.
    let default = if options.rehearse { "target/rehearsal" } else { "target/dist" };
    let out = make_folder(options.out.as_deref(), default)?;
    let release = if options.rehearse { Release::rehearsal(out) } else { Release::of_commit(out)? };
    let all = build_all(options, &release)?;
    for built in &all {
        let contents = contents::gather(&release, built)?;
        archives::pack(&release, built, &contents)?;
        if built.platform.is_linux() {
            packages::pack(&release, built, &contents)?;
            image::pack(&release, built)?;
        }
        fs::remove_dir_all(&contents)?;
    }
    match all.first().filter(|_| options.rehearse) {
        Some(built) => {
            let key = tempfile::tempdir()?;
            rehearsal::make_key(&key)?;
            signing::sign(&release, Some(&key.path().join("key")))?;
            rehearsal::check(&release, built, &key)?;
        }
        None => signing::sign(&release, options.key.as_deref())?,
    }
    summarize(&release)
}

/// Makes the directory of the release. Only the default one is emptied: another may hold what is not ours.
fn make_folder(wanted: Option<&Path>, default: &str) -> Result<PathBuf> {
    let folder = wanted.map_or_else(|| root().join(default), Path::to_owned);
    if wanted.is_some() {
        ensure!(!folder.exists(), "{} exists: name a new directory", folder.display());
    } else if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder.canonicalize()?)
}

fn build_all(options: &DistOptions, release: &Release) -> Result<Vec<Built>> {
    if options.rehearse {
        return Ok(vec![build::rehearse()?]);
    }
    let platforms = if options.platforms.is_empty() { &Platform::ON_LINUX[..] } else { &options.platforms[..] };
    let mut all = Vec::new();
    for platform in platforms {
        let built = build::build(*platform, release, &root().canonicalize()?)?;
        if options.compare {
            compare::build_elsewhere(&built, release)?;
        }
        all.push(built);
    }
    Ok(all)
}

/// Prints every file with its size.
fn summarize(release: &Release) -> Result<()> {
    for name in list(release)? {
        let size = fs::metadata(release.out.join(&name))?.len();
        say(&format!("{:>9.1} kB  {name}", f64::from(u32::try_from(size / 100)?) / 10.0));
    }
    say_error(&format!("{VERSION}, commit {}, in {}", release.commit, release.out.display()));
    Ok(())
}

/// The names of the files of the release, in order.
fn list(release: &Release) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(&release.out)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
