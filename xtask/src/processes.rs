//! The processor time and the memory of a process and its descendants, according to the kernel.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::Result;

use crate::memory;

/// The kernel counts processor time in this many ticks a second.
pub(crate) const TICKS_PER_SECOND: f64 = 100.0;

/// What `/proc/PID/stat` says about a process.
struct ProcessStat {
    pid: u32,
    parent: u32,
    /// The clock ticks of the process, and of its children that have exited.
    ticks: u64,
}

/// Returns the clock ticks that a process and its descendants have used, including exited ones.
pub(crate) fn ticks(root: u32) -> Result<u64> {
    Ok(tree(root)?.iter().map(|process| process.ticks).sum())
}

/// Returns the resident memory of a process and its descendants in megabytes. A page that several of them share counts for
/// each.
#[expect(clippy::cast_precision_loss, reason = "memory has fewer bytes than that")]
pub(crate) fn megabytes(root: u32) -> Result<f64> {
    // A process that has exited meanwhile has no memory.
    let kilobytes = tree(root)?.iter().filter_map(|process| memory::kilobytes(process.pid, "VmRSS").ok()).sum::<u64>();
    Ok(kilobytes as f64 / 1024.0)
}

/// Returns a process and all that descend from it.
fn tree(root: u32) -> Result<Vec<ProcessStat>> {
    let mut others = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        // A process may exit between listing and reading. Its time then counts for its parent.
        others.extend(read(&entry.path()));
    }
    let (mut found, mut pids) = (Vec::new(), BTreeSet::new());
    loop {
        let belongs = |process: &ProcessStat| process.pid == root || pids.contains(&process.parent);
        let (generation, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(belongs);
        if generation.is_empty() {
            return Ok(found);
        }
        pids.extend(generation.iter().map(|process| process.pid));
        found.extend(generation);
        others = rest;
    }
}

fn read(folder: &Path) -> Option<ProcessStat> {
    let pid = folder.file_name()?.to_str()?.parse().ok()?;
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    // The name of the program comes before, in parentheses, and may contain anything.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let field = |place: usize| fields.get(place)?.parse::<u64>().ok();
    let ticks = field(11)? + field(12)? + field(13)? + field(14)?;
    Some(ProcessStat { pid, parent: u32::try_from(field(1)?).ok()?, ticks })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_belongs_to_the_tree_of_its_parent() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let own = super::tree(std::process::id()).unwrap();
        let its = super::tree(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(own.iter().any(|process| process.pid == child.id()));
        assert_eq!(its.iter().map(|process| process.pid).collect::<Vec<_>>(), [child.id()]);
    }
}
