//! A machine with Debian 12 and systemd, in a container.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use super::containers::{Podman, said_by};
use crate::tools::succeed_in_silence;
use crate::{root, say_error};

/// What systemd needs. It can neither load modules nor set the clock, and the settings of the kernel are read-only for it.
pub(super) const SYSTEMD_OPTIONS: [&str; 9] = [
    "--systemd=always",
    "--cap-add",
    "all",
    "--cap-drop",
    "sys_module,sys_time,sys_boot,sys_rawio,syslog",
    "--security-opt",
    "seccomp=unconfined",
    "--security-opt",
    "apparmor=unconfined",
];

/// What is on the machine besides the essential packages.
const PACKAGES: &str = "systemd,openssl";

const BOOT_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_EVERY: Duration = Duration::from_millis(100);

/// A running machine. Dropping it ends it.
pub(super) struct DebianMachine {
    podman: Podman,
    folder: TempDir,
}

impl DebianMachine {
    /// Boots a machine that uses the network of this one.
    pub(super) fn boot(podman: Podman) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("machine-").tempdir()?;
        let machine = Self { podman, folder };
        fs::create_dir(machine.path("/"))?;
        let mut tar = Command::new("tar");
        tar.arg("--extract").arg("--file").arg(file_system()?).arg("--directory").arg(machine.path("/"));
        succeed_in_silence(&mut tar)?;
        let mut run = machine.podman.command();
        run.args(["run", "--detach", "--name", "machine", "--network", "host"]).args(SYSTEMD_OPTIONS);
        said_by(run.arg("--rootfs").arg(machine.path("/")).arg("/lib/systemd/systemd"))?;
        let began = Instant::now();
        while machine.shell("systemctl is-system-running").is_err() {
            ensure!(began.elapsed() < BOOT_TIMEOUT, "{}", machine.shell("systemctl --failed")?);
            std::thread::sleep(POLL_EVERY);
        }
        Ok(machine)
    }

    /// Where a file of the machine is here.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join("root").join(path.trim_start_matches('/'))
    }

    /// Runs a script as root in /srv, without input; returns what it prints.
    pub(super) fn shell(&self, script: &str) -> Result<String> {
        self.podman.run(&["exec", "--workdir", "/srv", "machine", "bash", "-euo", "pipefail", "-c", script])
    }
}

/// Returns an archive with the files of Debian, which is made once.
fn file_system() -> Result<PathBuf> {
    let folder = root().canonicalize()?.join("target/tools/debian-12");
    let (archive, unfinished) = (folder.join("root.tar"), folder.join("unfinished.tar"));
    if !archive.exists() {
        say_error("Packages from Debian …");
        fs::create_dir_all(&folder)?;
        let mut mmdebstrap = Command::new("mmdebstrap");
        mmdebstrap.args(["--quiet", "--variant=apt", &format!("--include={PACKAGES}"), "bookworm"]).arg(&unfinished);
        succeed_in_silence(&mut mmdebstrap).context("mmdebstrap: `.ci/install drills` installs it")?;
        fs::rename(unfinished, &archive)?;
    }
    Ok(archive)
}

/// Writes a program.
pub(super) fn write_program(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::write(path, text)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}
