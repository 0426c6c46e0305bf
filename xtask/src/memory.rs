//! The memory of a process, as Linux counts it.

use std::fs;

use anyhow::{Context as _, Result};

/// Returns a value of `/proc/PID/status` in kilobytes: `VmRSS`, or `RssAnon` without pages of files.
pub(crate) fn kilobytes(pid: u32, name: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.strip_suffix("kB"));
    Ok(line.with_context(|| format!("the process has no {name}"))?.trim().parse()?)
}
