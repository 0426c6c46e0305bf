//! `cargo xtask capacity`: measures what the operations of the service cost, and computes what many users need.
//!
//! Costs are processor time, write-ahead log and bytes, which depend on the machine less than throughput does. The rates
//! per user are assumptions; `model.rs` names them.

mod costs;
mod loads;
mod machine;
mod memory;
mod model;
mod page;
mod plot;
mod rows;

use std::{fs, path::PathBuf, time::Duration};

use anyhow::Result;

pub(crate) use self::rows::fill_users;
use self::{costs::Costs, machine::Machine};
use crate::{bench, build_server, progress::Plan, root, say, say_error};

#[derive(clap::Args)]
pub(crate) struct CapacityOptions {
    /// Small tables, short rounds and the debug build, to see whether it runs; writes nothing
    #[arg(long)]
    quick: bool,
    /// Measure this `serviced` instead of building one
    #[arg(long, value_name = "PROGRAM")]
    server: Option<PathBuf>,
}

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    /// Users, and as many sessions.
    users: u32,
    /// Rows of each other table.
    others: u32,
    /// CLI tokens that are used once.
    cli_tokens: usize,
    /// Revocations in memory.
    revocations: u32,
    /// Connections to a node.
    connections: u32,
    round: Duration,
    rounds: usize,
}

const FULL: Size = Size {
    users: 1_000_000,
    others: 200_000,
    cli_tokens: 120_000,
    revocations: 2_000_000,
    connections: 2_000,
    round: Duration::from_secs(4),
    rounds: 3,
};

const QUICK: Size = Size {
    users: 10_000,
    others: 2_000,
    cli_tokens: 5_000,
    revocations: 20_000,
    connections: 100,
    round: Duration::from_millis(400),
    rounds: 1,
};

pub(crate) fn run(options: &CapacityOptions) -> Result<()> {
    if cfg!(debug_assertions) && !options.quick && options.server.is_none() {
        return bench::again_in_release();
    }
    let size = if options.quick { QUICK } else { FULL };
    let costs = tokio::runtime::Runtime::new()?.block_on(measure(size, options.server.clone()))?;
    let text = page::write(&costs);
    say(&text);
    if options.quick {
        return Ok(());
    }
    let (docs, pictures) = (root().join("docs"), root().join("docs/pictures"));
    fs::create_dir_all(&pictures)?;
    fs::write(docs.join("capacity.md"), text)?;
    fs::write(pictures.join("capacity-rates.svg"), plot::rates(&costs))?;
    fs::write(pictures.join("capacity-limits.svg"), plot::limits(&costs))?;
    say_error("Wrote docs/capacity.md and two plots");
    Ok(())
}

async fn measure(size: Size, server: Option<PathBuf>) -> Result<Costs> {
    let mut plan = Plan::new(6);
    // First, while this process has freed no memory that it could use again.
    plan.begin("memory of a revocation");
    let (revocation_bytes, revocation_seconds) = memory::per_revocation(size.revocations)?;
    let server = server.map_or_else(|| build_server(!cfg!(debug_assertions)), Ok)?;
    let mut machine = Machine::start(size, &server).await?;
    let mut costs = Costs { revocation_bytes, revocation_seconds, ..machine.describe().await? };
    plan.begin("tables with many rows");
    rows::fill(&machine, &mut costs).await?;
    plan.begin("an idle node");
    machine.measure_idle().await?;
    plan.begin("operations");
    loads::measure(&machine, &mut costs).await?;
    plan.begin("memory of a node");
    memory::measure(&machine, &mut costs).await?;
    plan.begin("more rows");
    rows::multiply(&mut machine, &mut costs).await?;
    Ok(costs)
}
