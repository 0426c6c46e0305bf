//! Where the clusters of tests keep their data: in memory if the machine has plenty, on disk otherwise.
//!
//! Several hundred databases are created in a run. On a slow disk PostgreSQL then waits for seconds until a commit is
//! durable, longer than a statement may take. Benchmarks always use the disk, because its speed is what they measure.

use std::env::temp_dir;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const MEMORY: &str = "/dev/shm";

/// A run of all tests fills about 10 GiB.
const ROOM: u64 = 16 << 30;

/// Returns the directory in which a test's cluster is created.
pub(super) fn for_tests() -> PathBuf {
    if memory_available().min(room_in_memory()) >= ROOM { PathBuf::from(MEMORY) } else { temp_dir() }
}

/// Returns how many bytes the machine can use before it swaps, or 0 if it does not say.
fn memory_available() -> u64 {
    let kibibytes = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    });
    kibibytes.unwrap_or_default() << 10
}

/// Returns how many bytes the file system in memory has left, or 0 if there is none.
fn room_in_memory() -> u64 {
    let answer = Command::new("df").args(["--output=avail", "--block-size=1", "--type=tmpfs", MEMORY]).output();
    let text = answer.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().nth(1).and_then(|bytes| bytes.trim().parse().ok()).unwrap_or_default()
}
