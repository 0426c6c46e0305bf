//! Memory and file descriptors of this process, with the names that Prometheus's own libraries use. Linux only.

use prometheus_client::{metrics::gauge::Gauge, registry::Registry};
use rustix::process::{Resource, getrlimit};

#[derive(Default)]
pub(super) struct ProcessMetrics {
    resident_memory: Gauge,
    open_fds: Gauge,
    max_fds: Gauge,
}

impl ProcessMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("process_resident_memory_bytes", "Memory of this process", self.resident_memory.clone());
        registry.register("process_open_fds", "Open file descriptors", self.open_fds.clone());
        registry.register("process_max_fds", "Limit on open file descriptors", self.max_fds.clone());
    }

    /// Reads what the system says now. What cannot be read keeps its value.
    pub(super) fn measure(&self) {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        if let Some(bytes) = resident_memory(&status) {
            self.resident_memory.set(bytes);
        }
        if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
            // One of them is the directory that is being read.
            self.open_fds.set(i64::try_from(open.count()).unwrap_or(i64::MAX).saturating_sub(1));
        }
        let limit = getrlimit(Resource::Nofile).current;
        self.max_fds.set(limit.map_or(i64::MAX, |limit| limit.try_into().unwrap_or(i64::MAX)));
    }
}

/// Returns the resident memory in bytes, from a line such as `VmRSS:  15600 kB`.
fn resident_memory(status: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: i64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    #[test]
    fn resident_memory_is_in_bytes() {
        assert_eq!(super::resident_memory("Name:\tserviced\nVmRSS:\t   15600 kB\n"), Some(15_974_400));
        assert_eq!(super::resident_memory("Name:\tserviced\n"), None);
    }
}
