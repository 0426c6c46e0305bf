//! The process that owns a PostgreSQL server, so that the server stops with the test process however that ends.
//!
//! Statics are never dropped, and a killed process runs no code. So the supervisor watches a pipe: only this process
//! holds the write end (the standard library opens pipes close-on-exec), and the kernel closes it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail};

const SCRIPT: &str = include_str!("supervisor.sh");

/// Accounts that PostgreSQL can run as when this process runs as root, which PostgreSQL refuses. The first that exists
/// is used.
const UNPRIVILEGED_ACCOUNTS: [&str; 2] = ["postgres", "nobody"];

pub(super) struct Supervisor {
    process: Child,
    /// Taken when dropped, because closing it stops the script.
    commands: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
    postmaster: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Throwaway,
    Kept,
}

impl Supervisor {
    pub(super) fn spawn(directory: &Path, life: Life, postgres_arguments: &[String]) -> Result<Self> {
        let mut unprivileged = String::new();
        if let Some((user, group)) = unprivileged_account()? {
            chown(directory, Some(user), Some(group)).with_context(|| format!("chown {}", directory.display()))?;
            unprivileged = format!("setpriv --reuid={user} --regid={group} --clear-groups --");
        }
        let life = if life == Life::Throwaway { "throwaway" } else { "kept" };
        let mut process = Command::new("sh")
            .args([OsStr::new("-c"), OsStr::new(SCRIPT), OsStr::new("postgres-supervisor"), directory.as_os_str()])
            .args([OsString::from(life), programs()?.into_os_string(), OsString::from(unprivileged)])
            .args(postgres_arguments)
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot run sh")?;
        let commands = process.stdin.take();
        let replies = BufReader::new(process.stdout.take().context("the supervisor has no output")?);
        Ok(Self { process, commands, replies, postmaster: None })
    }

    /// Starts PostgreSQL; `false`: it exited, and its log says why.
    pub(super) fn start_postgres(&mut self, port: u16) -> Result<bool> {
        let reply = self.ask(&format!("start {port}"))?;
        self.postmaster = reply.strip_prefix("ready ").map(str::parse).transpose()?;
        Ok(self.postmaster.is_some())
    }

    /// Creates the cluster as a standby of the one on this port. The cluster must not exist yet.
    pub(super) fn follow(&mut self, primary: u16) -> Result<()> {
        let reply = self.ask(&format!("follow {primary}"))?;
        if reply == "following" {
            Ok(())
        } else {
            bail!("pg_basebackup failed; the log in the cluster's folder says why")
        }
    }

    pub(super) fn stop_postgres(&mut self, signal: &str) -> Result<()> {
        self.postmaster = None;
        self.ask(&format!("stop {signal}")).map(drop)
    }

    pub(super) fn postmaster(&self) -> Option<u32> {
        self.postmaster
    }

    fn ask(&mut self, command: &str) -> Result<String> {
        let commands = self.commands.as_mut().context("the supervisor was told to end")?;
        writeln!(commands, "{command}").context("PostgreSQL's supervisor has ended")?;
        let mut reply = String::new();
        self.replies.read_line(&mut reply)?;
        if reply.is_empty() {
            bail!("PostgreSQL's supervisor ended while asked to {command}");
        }
        Ok(reply.trim_end().to_owned())
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        drop(self.commands.take());
        // Waits, so that neither the server nor its directory exists when this returns.
        drop(self.process.wait());
    }
}

/// Returns an account without privileges, user and group, if this process runs as root.
pub fn unprivileged_account() -> Result<Option<(u32, u32)>> {
    if id(&["-u"])? != 0 {
        return Ok(None);
    }
    for account in UNPRIVILEGED_ACCOUNTS {
        if let (Ok(user), Ok(group)) = (id(&["-u", account]), id(&["-g", account])) {
            return Ok(Some((user, group)));
        }
    }
    bail!("PostgreSQL does not run as root, and there is no account named {}", UNPRIVILEGED_ACCOUNTS.join(" or "))
}

fn id(arguments: &[&str]) -> Result<u32> {
    let output = Command::new("id").args(arguments).output().context("cannot run id")?;
    String::from_utf8_lossy(&output.stdout).trim().parse().context("id printed no number")
}

/// Returns the directory of the server's programs. Debian keeps them off the path, one directory for each version.
pub fn programs() -> Result<PathBuf> {
    let configured = Command::new("pg_config").arg("--bindir").output().ok();
    let configured = configured.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut packaged: Vec<PathBuf> =
        fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    packaged.sort_by_key(|directory| {
        directory.file_name().and_then(OsStr::to_str).and_then(|version| version.parse::<u32>().ok())
    });
    let packaged = packaged.iter().rev().map(|directory| directory.join("bin"));
    configured
        .into_iter()
        .chain(std::env::split_paths(&path))
        .chain(packaged)
        .find(|directory| directory.join("initdb").is_file() && directory.join("postgres").is_file())
        .context(
            "cannot find PostgreSQL's server programs initdb and postgres (looked in `pg_config --bindir`, on the path \
             and in /usr/lib/postgresql/*/bin): install them, on Debian with `apt-get install postgresql`",
        )
}
