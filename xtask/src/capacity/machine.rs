//! PostgreSQL and a node, and the meters on both.

use std::{fs, net::SocketAddr, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use service_testkit::{
    leaks::Leaks, mailbox::Mailbox, postgres::Cluster, process::Process, server::fresh_database, settings::Settings,
};
use tokio::time::Instant;
use tokio_postgres::Client;

use super::{
    Size,
    costs::{Cost, Costs},
};
use crate::{bench::engine, processes::TICKS_PER_SECOND};

pub(crate) struct Machine {
    pub(crate) size: Size,
    pub(crate) cluster: Cluster,
    pub(crate) client: Client,
    pub(crate) mailbox: Mailbox,
    pub(crate) settings: Settings,
    pub(crate) node: Process,
    /// What a second costs in which no request is sent.
    idle: Reading,
}

/// The state of all meters.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    engine: f64,
    node: f64,
    wal: f64,
    transactions: f64,
}

impl Machine {
    pub(crate) async fn start(size: Size, server: &Path) -> Result<Self> {
        let cluster = Cluster::start_quiet()?;
        let database = fresh_database(&cluster).await?;
        let (client, connection) = tokio_postgres::connect(&cluster.url(&database), tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        // Vacuum and checkpoints run when this program says so, or a round would pay for the round before.
        for setting in ["autovacuum = off", "checkpoint_timeout = '1h'", "max_wal_size = '16GB'"] {
            client.batch_execute(&format!("alter system set {setting}")).await?;
        }
        client.batch_execute("select pg_reload_conf()").await?;
        let mailbox = Mailbox::start().await?;
        let mut settings = Settings::complete(&cluster.service_url(&database), &mailbox)?;
        settings.set("http.trusted_proxies", "127.0.0.1/32");
        settings.set("database.connections", "32");
        settings.set("log.filter", "warn,serviced=info");
        let node = Process::start(server, &settings, &Leaks::default())?;
        Ok(Self { size, cluster, client, mailbox, settings, node, idle: Reading::default() })
    }

    /// Says where it is measured, without naming the machine.
    pub(crate) async fn describe(&self) -> Result<Costs> {
        let show = async |name: &str| -> Result<String> {
            Ok(self.client.query_one(&format!("select current_setting('{name}')"), &[]).await?.get(0))
        };
        let version = show("server_version").await?;
        Ok(Costs {
            cores: std::thread::available_parallelism()?.get(),
            postgres: version.split(' ').next().unwrap_or_default().to_owned(),
            fsync: show("fsync").await?,
            shared_buffers: show("shared_buffers").await?,
            grants: self.size.users,
            ..Costs::default()
        })
    }

    pub(crate) fn address(&self) -> Result<SocketAddr> {
        Ok(self.node.http.url.trim_start_matches("http://").parse()?)
    }

    /// Returns a number that a statement gives.
    pub(crate) async fn number(&self, sql: &str) -> Result<f64> {
        Ok(self.client.query_one(&format!("select ({sql})::float8"), &[]).await?.get(0))
    }

    pub(crate) async fn checkpoint(&self) -> Result<()> {
        Ok(self.client.batch_execute("checkpoint").await?)
    }

    /// Sets a parameter of PostgreSQL, and waits until it counts.
    pub(crate) async fn set_parameter(&self, name: &str, value: &str) -> Result<()> {
        self.client.batch_execute(&format!("alter system set {name} = '{value}'")).await?;
        self.client.batch_execute("select pg_reload_conf()").await?;
        let show = format!("select current_setting('{name}')");
        while self.client.query_one(&show, &[]).await?.get::<_, String>(0) != value {}
        Ok(())
    }

    /// Measures what background tasks cost, which is not the cost of any operation.
    pub(crate) async fn measure_idle(&mut self) -> Result<()> {
        self.client.batch_execute("checkpoint").await?;
        let (began, before) = (Instant::now(), self.read().await?);
        tokio::time::sleep(self.size.round.min(Duration::from_secs(3))).await;
        let (seconds, after) = (began.elapsed().as_secs_f64(), self.read().await?);
        let part = |after: f64, before: f64| (after - before) / seconds;
        self.idle = Reading {
            engine: part(after.engine, before.engine),
            node: part(after.node, before.node),
            wal: part(after.wal, before.wal),
            transactions: part(after.transactions, before.transactions),
        };
        Ok(())
    }

    /// Runs operations, which return how many there were, and reads the meters before and after.
    #[expect(clippy::cast_precision_loss, reason = "there are not that many operations")]
    pub(crate) async fn meter(&self, work: impl Future<Output = Result<u64>>) -> Result<Cost> {
        let (began, before) = (Instant::now(), self.read().await?);
        let operations = work.await?;
        let (seconds, after) = (began.elapsed().as_secs_f64(), self.read().await?);
        let each =
            |after: f64, before: f64, idle: f64| ((after - before - idle * seconds) / operations as f64).max(0.0);
        Ok(Cost {
            engine: each(after.engine, before.engine, self.idle.engine),
            node: each(after.node, before.node, self.idle.node),
            wal: each(after.wal, before.wal, self.idle.wal),
            transactions: each(after.transactions, before.transactions, self.idle.transactions),
            operations,
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "processes do not run for so long")]
    async fn read(&self) -> Result<Reading> {
        Ok(Reading {
            engine: engine::ticks(&self.cluster)? as f64 / TICKS_PER_SECOND,
            node: node_ticks(self.node.pid())? / TICKS_PER_SECOND,
            wal: self.number("pg_current_wal_insert_lsn() - '0/0'").await?,
            transactions: self.number("pg_snapshot_xmax(pg_current_snapshot())::text").await?,
        })
    }
}

/// The clock ticks that a process has used.
fn node_ticks(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(") ").context("no statistics of the node")?;
    let field = |place: usize| fields.split(' ').nth(place).and_then(|text| text.parse::<f64>().ok());
    Ok(field(11).context("no user time")? + field(12).context("no system time")?)
}
