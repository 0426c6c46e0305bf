//! Containers, started by podman from a store of their own. Dropping the store removes them.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tempfile::TempDir;

use crate::say_error;

/// The settings of podman: those with which it also runs on a machine without systemd.
const SETTINGS: &str = r#"[containers]
default_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
"#;

const REMOVAL_ATTEMPTS: usize = 50;
const BETWEEN_REMOVALS: Duration = Duration::from_millis(100);

/// podman with a store of its own.
pub(super) struct Podman {
    folder: TempDir,
    /// Where containers, and the images that are added, are kept.
    root: PathBuf,
    /// How they are kept.
    storage: Vec<String>,
}

impl Podman {
    pub(super) fn new() -> Result<Self> {
        // This kind of store needs no mounts.
        Self::with_storage(None, &["vfs"])
    }

    /// podman that adds images to a folder, which stays.
    pub(super) fn that_fills(images: &Path) -> Result<Self> {
        Self::with_storage(Some(images), &["overlay"])
    }

    /// podman with a store of its own, that also finds the images in a folder that `that_fills` has filled.
    pub(super) fn with_images(images: &Path) -> Result<Self> {
        let option = format!("overlay.imagestore={}", images.display());
        Self::with_storage(None, &["overlay", "--storage-opt", &option])
    }

    fn with_storage(root: Option<&Path>, storage: &[&str]) -> Result<Self> {
        ensure!(find_program("podman").is_some(), "podman is not installed: `.ci/install drills` installs it");
        // podman refuses long paths.
        let folder = tempfile::Builder::new().prefix("podman-").tempdir()?;
        let networks = folder.path().join("networks");
        let settings = format!("{SETTINGS}[network]\nnetwork_config_dir = {:?}\n", networks.display().to_string());
        fs::write(folder.path().join("containers.conf"), settings)?;
        let root = root.map_or_else(|| folder.path().join("root"), Path::to_owned);
        Ok(Self { folder, root, storage: storage.iter().map(|&word| word.to_owned()).collect() })
    }

    /// Returns podman, to which a command is to be added.
    pub(super) fn command(&self) -> Command {
        let path = |name: &str| self.folder.path().join(name);
        let mut podman = Command::new("podman");
        podman.arg("--root").arg(&self.root).arg("--runroot").arg(path("run")).arg("--tmpdir").arg(path("tmp"));
        podman.arg("--storage-driver").args(&self.storage);
        podman.env("CONTAINERS_CONF", path("containers.conf")).stdin(Stdio::null());
        podman
    }

    /// Runs a command of podman; returns what it prints.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<String> {
        said_by(self.command().args(arguments))
    }

    /// Writes a program `podman` that uses this store; returns its folder. With it in front of `PATH`, scripts of documents
    /// run as they are.
    pub(super) fn wrapper(&self) -> Result<PathBuf> {
        let (folder, command) = (self.folder.path().join("bin"), self.command());
        let words = command.get_args().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let settings = self.folder.path().join("containers.conf");
        fs::create_dir_all(&folder)?;
        let real = find_program("podman").context("podman is not installed")?;
        let text =
            format!("#!/bin/sh\nCONTAINERS_CONF={} exec {} {words} \"$@\"\n", settings.display(), real.display());
        let program = folder.join("podman");
        fs::write(&program, text)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        Ok(folder)
    }

    /// Why this machine cannot start a container with these options, if it cannot.
    pub(super) fn refuses(&self, options: &[&str]) -> Result<Option<String>> {
        let trivial = self.folder.path().join("trivial");
        copy_with_libraries(&find_program("true").context("there is no program true")?, &trivial)?;
        let mut run = self.command();
        run.args(["run", "--rm", "--network", "host"]).args(options).arg("--rootfs").arg(&trivial).arg("/true");
        let output = run.output().context("podman does not run")?;
        let said = String::from_utf8_lossy(&output.stderr);
        Ok((!output.status.success()).then(|| said.trim().to_owned()))
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _ = self.run(&["rm", "--all", "--force", "--time", "1"]);
        // The files of containers can belong to users that only podman can act for.
        for folder in ["root", "trivial"] {
            let _ = self.command().args(["unshare", "rm", "-rf"]).arg(self.folder.path().join(folder)).output();
        }
        // Every command of podman mounts this folder over itself, unless the store needs no mounts.
        let _ = Command::new("umount").arg(self.root.join("overlay")).stderr(Stdio::null()).status();
        // podman cleans up after a container in a process of its own, which may still write files.
        for _ in 0..REMOVAL_ATTEMPTS {
            let _ = fs::remove_dir_all(self.folder.path());
            std::thread::sleep(BETWEEN_REMOVALS);
            if !self.folder.path().exists() {
                return;
            }
        }
        say_error(&format!("{} cannot be removed", self.folder.path().display()));
    }
}

/// Whether this process can make namespaces and networks.
pub(super) fn is_root() -> Result<bool> {
    Ok(fs::metadata("/proc/self")?.uid() == 0)
}

/// Reports that a drill is skipped, because no container can be started here.
pub(super) fn skip(drill: &str, reason: &str) -> Result<()> {
    super::skip(drill, &format!("podman cannot start a container here: {reason}"))
}

/// Runs a command to its end; returns what it prints.
pub(super) fn said_by(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?} does not run"))?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if !output.status.success() {
        bail!("{command:?} failed: {}\n{}", said(&output.stdout), said(&output.stderr));
    }
    Ok(said(&output.stdout))
}

/// Copies a program to the root of a file system, with the shared libraries that it needs.
fn copy_with_libraries(program: &Path, root: &Path) -> Result<()> {
    let listed = said_by(Command::new("ldd").arg(program))?;
    let libraries = listed.split_whitespace().filter(|word| word.starts_with('/')).map(Path::new);
    let name = Path::new(program.file_name().context("a program has no name")?);
    for (from, to) in libraries.map(|library| (library, library)).chain([(program, name)]) {
        let to = root.join(to.strip_prefix("/").unwrap_or(to));
        fs::create_dir_all(to.parent().context("a file is in no folder")?)?;
        fs::copy(from, to)?;
    }
    // What a container gets mounted.
    for folder in ["dev", "etc", "proc", "run", "sys", "tmp"] {
        fs::create_dir_all(root.join(folder))?;
    }
    ensure!(root.join(name).exists(), "{} was not copied", program.display());
    Ok(())
}

fn find_program(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(|file| file.is_file())
}
