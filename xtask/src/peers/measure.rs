//! The rounds: one product after another under the same load, and what that cost it and PostgreSQL.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result, ensure};
use service_testkit::{
    load::{self, Seen},
    postgres::Cluster,
};
use tokio::time::timeout;

use super::{
    ours::{GRANTS, OurServer, verifications},
    products::{Blocks, NextRequest, Peer},
};
use crate::{
    bench::{engine, pgbench, refresh},
    processes::{self, TICKS_PER_SECOND},
};

/// How long a round may take longer than it should, for responses that are late.
const LATE_RESPONSES_TIMEOUT: Duration = Duration::from_secs(30);

/// Everything that is measured, running.
pub(super) struct Contest<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) ours: &'a OurServer,
    pub(super) peers: &'a [Peer],
    pub(super) round: Duration,
    pub(super) blocks: Blocks,
}

/// An operation of a product, with all its rounds.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) operation: &'static str,
    pub(super) product: String,
    /// The process whose descendants are the server, if there is one.
    pid: Option<u32>,
    pub(super) rounds: Vec<RoundCost>,
}

/// What one round reached, and what it cost.
#[derive(Clone, Copy)]
pub(super) struct RoundCost {
    pub(super) per_second: f64,
    /// Processor time of the server for one operation, in microseconds.
    pub(super) server_micros: Option<f64>,
    /// Processor time of PostgreSQL for one operation, in microseconds.
    pub(super) postgres_micros: f64,
    /// Resident memory of the server after the round.
    pub(super) megabytes: Option<f64>,
}

/// How much was done in a round.
struct Throughput {
    per_second: f64,
    operations: f64,
}

impl Contest<'_> {
    pub(super) async fn refresh(&self) -> Result<Vec<Entry>> {
        let entry = |product: &str, pid| Entry::new("refresh", product, pid);
        let mut bare = entry("pgbench, our statements", None);
        let mut ours = entry("ours", Some(self.ours.pid()));
        let mut peers: Vec<_> = self.peers.iter().map(|peer| entry(&peer.name(), Some(peer.pid()))).collect();
        let script = tempfile::NamedTempFile::new()?;
        std::fs::write(script.path(), refresh::script_text(GRANTS)?)?;
        let connections = self.blocks.connections;
        for round in 0..self.blocks.rounds {
            self.meter(&mut bare, async {
                let target = pgbench::Target { url: self.ours.database_url.clone(), round: self.round };
                let per_second = pgbench::run_as(&target, script.path(), connections)?;
                Ok(Throughput { per_second, operations: per_second * self.round.as_secs_f64().max(1.0) })
            })
            .await?;
            let holder = self.ours.holder.clone();
            let request = move |connection, number| holder.request(connection, number);
            let work = load::run(self.ours.address, connections, self.round, request);
            self.meter(&mut ours, async { throughput(&work.await?) }).await?;
            for (peer, entry) in self.peers.iter().zip(&mut peers) {
                self.meter(entry, self.converse(peer.address, peer.refreshes(round)?)).await?;
            }
        }
        peers.splice(0..0, [bare, ours]);
        Ok(peers)
    }

    /// Measures the verification of access tokens: by `GET /v1/whoami` in our server, which reads no table, and by
    /// introspection, which does.
    pub(super) async fn verify(&self) -> Result<Vec<Entry>> {
        let tokens = self.ours.sign_in().await?;
        let token = tokens.first().context("no user is signed in")?;
        self.ours.check(token).await?;
        let handler = self.ours.bare(token).await?;
        let entry = |product: &str, pid| Entry::new("verification", product, Some(pid));
        let mut bare = entry("bare handler", handler.pid());
        let mut ours = entry("ours, whoami", self.ours.pid());
        let mut ours_introspecting = entry("ours, introspection", self.ours.pid());
        let mut peers: Vec<_> = self.peers.iter().map(|peer| entry(&peer.name(), peer.pid())).collect();
        let address = self.ours.address;
        for _ in 0..self.blocks.rounds {
            let tokens = self.ours.sign_in().await?;
            self.meter(&mut bare, self.converse(handler.address, verifications(&tokens))).await?;
            self.meter(&mut ours, self.converse(address, verifications(&tokens))).await?;
            self.meter(&mut ours_introspecting, self.converse(address, self.ours.introspections(&tokens))).await?;
            for (peer, entry) in self.peers.iter().zip(&mut peers) {
                self.meter(entry, self.converse(peer.address, peer.introspections()?)).await?;
            }
        }
        peers.splice(0..0, [bare, ours, ours_introspecting]);
        Ok(peers)
    }

    async fn converse(&self, address: SocketAddr, requests: Vec<NextRequest>) -> Result<Throughput> {
        throughput(&load::converse(address, requests, self.round).await?)
    }

    /// Runs a round, and reads the processor time before and after.
    async fn meter(&self, entry: &mut Entry, work: impl Future<Output = Result<Throughput>>) -> Result<()> {
        let server_ticks = || entry.pid.map(processes::ticks).transpose();
        let (server_before, postgres_before) = (server_ticks()?, engine::ticks(self.cluster)?);
        let done = timeout(self.round + LATE_RESPONSES_TIMEOUT, work)
            .await
            .map_err(anyhow::Error::from)
            .flatten()
            .with_context(|| format!("{}, {}", entry.product, entry.operation))?;
        let (server_after, postgres_after) = (server_ticks()?, engine::ticks(self.cluster)?);
        let micros = |after: u64, before: u64| -> Result<f64> {
            let ticks = f64::from(u32::try_from(after.saturating_sub(before))?);
            Ok(ticks / TICKS_PER_SECOND * 1_000_000.0 / done.operations)
        };
        let server_micros = server_after.zip(server_before).map(|(after, before)| micros(after, before)).transpose()?;
        entry.rounds.push(RoundCost {
            per_second: done.per_second,
            server_micros,
            postgres_micros: micros(postgres_after, postgres_before)?,
            megabytes: entry.pid.map(processes::megabytes).transpose()?,
        });
        Ok(())
    }
}

impl Entry {
    fn new(operation: &'static str, product: &str, pid: Option<u32>) -> Self {
        Self { operation, product: product.to_owned(), pid, rounds: Vec::new() }
    }
}

fn throughput(seen: &Seen) -> Result<Throughput> {
    ensure!(seen.failures == 0, "{} of {} requests failed", seen.failures, seen.requests);
    let per_second = seen.per_second();
    Ok(Throughput { per_second, operations: per_second * seen.seconds })
}
