//! The processor time that PostgreSQL has used, according to the kernel.

use std::fs;

use anyhow::{Context as _, Result};
use service_testkit::postgres::Cluster;

/// Returns the clock ticks that the postmaster and its children have used, including exited ones.
pub(crate) fn ticks(cluster: &Cluster) -> Result<u64> {
    let postmaster = cluster.postmaster().context("PostgreSQL does not run")?;
    let mut total = 0;
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // A process may exit between listing and reading. Its time then counts for its parent.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((_, fields)) = stat.rsplit_once(") ") else { continue };
        let fields: Vec<&str> = fields.split(' ').collect();
        let field = |place: usize| fields.get(place).and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
        if pid == postmaster {
            total += field(11) + field(12) + field(13) + field(14);
        } else if field(1) == u64::from(postmaster) {
            total += field(11) + field(12);
        }
    }
    Ok(total)
}
