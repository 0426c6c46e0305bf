//! A part of this machine that a drill has for itself: processes, mounts and a network. All of them end with the drill, however
//! it ends.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// What is different inside: no other network, so name servers are refused at once. podman's locks and networks are not those of
/// this machine. The shell stays, because it is the process that adopts what containers leave.
const SCRIPT: &str = r#"set -e
ip link set lo up
mkdir -p /run/containers /run/netns
for folder in /dev/shm /run/containers /run/netns; do mount -t tmpfs none "$folder"; done
echo 'nameserver 127.0.0.1' >"$TMPDIR/resolv.conf"
mount --bind "$TMPDIR/resolv.conf" /etc/resolv.conf
set +e
"$0" "$@"
exit $?
"#;

/// Runs this program again with these arguments, in namespaces of its own and with `folder` for its temporary files.
pub(super) fn run_inside(folder: &Path, arguments: &[&str]) -> Result<()> {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--net", "--pid", "--mount-proc", "--fork", "--kill-child", "sh", "-c", SCRIPT]);
    unshare.arg(std::env::current_exe()?).args(arguments).env("TMPDIR", folder).stdin(Stdio::null());
    let status = unshare.status().context("unshare does not run")?;
    ensure!(status.success(), "the drill failed: {status}");
    Ok(())
}
