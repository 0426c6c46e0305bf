//! What revocations and connections take in memory.

use std::{fs, hint::black_box};

use anyhow::{Context as _, Result, ensure};
use service_api::{errors::Reason, ids::GrantId};
use service_rules::revocation::{Revocation, RevocationSet, Subject};
use service_server::{clock::Clock, crypto::random};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{costs::Costs, machine::Machine};

/// Bytes of a revocation in the set that a node has in memory, and for how many seconds it stays there.
pub(crate) fn per_revocation(count: u32) -> Result<(f64, f64)> {
    let (now, before) = (Clock::System.now(), resident(std::process::id())?);
    let mut set = RevocationSet::with_capacity(usize::try_from(count)?);
    let mut seconds = 0.0;
    for _ in 0..count {
        let id: GrantId = random::id(now)?;
        let revocation = Revocation::of(Subject::Grant(id), Reason::RevokedByUser, now);
        seconds = revocation.forget_at.duration_since(now).as_secs_f64();
        set.insert(revocation);
    }
    let after = resident(std::process::id())?;
    ensure!(black_box(&set).len() == usize::try_from(count)?, "the set lost revocations");
    Ok(((after - before) / f64::from(count), seconds))
}

/// Measures connections to the node, and of the node to PostgreSQL.
pub(crate) async fn measure(machine: &Machine, costs: &mut Costs) -> Result<()> {
    let (pid, address, count) = (machine.node.pid(), machine.address()?, machine.size.connections);
    let before = resident(pid)?;
    let mut streams = Vec::new();
    for _ in 0..count {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET /v1/whoami HTTP/1.1\r\nHost: service.test\r\n\r\n").await?;
        let mut answer = [0; 4_096];
        let read = stream.read(&mut answer).await?;
        ensure!(answer[..read].starts_with(b"HTTP/1.1 401"), "the node did not answer");
        streams.push(stream);
    }
    costs.http_connection_bytes = ((resident(pid)? - before) / f64::from(count)).max(0.0);
    drop(streams);
    costs.database_connection_bytes = per_backend(machine)?;
    Ok(())
}

/// The memory that is a backend's own, on average over the backends of the service.
fn per_backend(machine: &Machine) -> Result<f64> {
    let postmaster = machine.cluster.postmaster().context("PostgreSQL does not run")?;
    let (mut count, mut kilobytes) = (0_u32, 0.0);
    for entry in fs::read_dir("/proc")?.flatten() {
        let read = |name: &str| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        let is_child = read("status").lines().any(|line| line == format!("PPid:\t{postmaster}"));
        if !is_child || !read("cmdline").contains("serviced") {
            continue;
        }
        let own = read("smaps_rollup")
            .lines()
            .filter(|line| line.starts_with("Private_"))
            .filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok())
            .sum::<f64>();
        kilobytes += own;
        count += 1;
    }
    ensure!(count > 0, "the service has no connection");
    Ok(kilobytes * 1_024.0 / f64::from(count))
}

/// The bytes of a process that are in memory.
fn resident(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no size of the process")?;
    Ok(line.split_whitespace().next().context("no size of the process")?.parse::<f64>()? * 1_024.0)
}
