//! The processor time that PostgreSQL has used, according to the kernel.

use anyhow::{Context as _, Result};
use service_testkit::postgres::Cluster;

use crate::processes;

/// Returns the clock ticks that the postmaster and its children have used, including exited ones.
pub(crate) fn ticks(cluster: &Cluster) -> Result<u64> {
    processes::ticks(cluster.postmaster().context("PostgreSQL does not run")?)
}
