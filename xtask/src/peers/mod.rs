//! `cargo xtask peers`: measures other products beside ours, on one PostgreSQL with the same durability.
//!
//! PostgreSQL, the servers and the load share this machine. So rounds alternate between the products, and only ratios within
//! one run are meaningful. `peers/README.md` says how the other products are configured.

mod install;
mod measure;
mod ours;
mod products;
mod report;

use std::time::Duration;

use anyhow::Result;
use service_testkit::postgres::Cluster;

use self::{measure::Contest, ours::OurServer, products::Peer};
use crate::{bench, build_server, progress::Plan, say_error};

#[derive(clap::Args)]
pub(crate) struct PeersOptions {
    /// Print one line of JSON for each product and operation
    #[arg(long)]
    json: bool,
    /// Rounds of each operation
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds of a round
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Connections of the load
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=128))]
    connections: u64,
    /// One short round each with the debug build, to see whether it runs
    #[arg(long)]
    quick: bool,
}

pub(crate) fn run(options: &PeersOptions) -> Result<()> {
    if cfg!(debug_assertions) && !options.quick {
        return bench::again_in_release();
    }
    tokio::runtime::Runtime::new()?.block_on(measure(options))
}

async fn measure(options: &PeersOptions) -> Result<()> {
    let programs = install::install()?;
    let binary = build_server(!cfg!(debug_assertions))?;
    let (round, rounds) = if options.quick {
        (Duration::from_millis(500), 1)
    } else {
        (Duration::from_secs(options.seconds), options.rounds)
    };
    let cluster = Cluster::start_quiet()?;
    say_error("Starting all products …");
    let ours = OurServer::start(&cluster, &binary, options.connections).await?;
    let blocks = products::Blocks { rounds, connections: options.connections };
    let mut peers = Vec::new();
    for program in &programs {
        let peer = Peer::start(&cluster, program, blocks).await?;
        peer.check().await?;
        peers.push(peer);
    }
    let contest = Contest { cluster: &cluster, ours: &ours, peers: &peers, round, blocks };

    say_error(&format!("Load of the machine before: {}", bench::load()));
    let mut plan = Plan::new(2);
    plan.begin("refresh");
    let refreshes = contest.refresh().await?;
    plan.begin("verification");
    let verifications = contest.verify().await?;
    say_error(&format!("Load of the machine after: {}", bench::load()));
    report::print(&[refreshes, verifications].concat(), options.json);
    Ok(())
}
