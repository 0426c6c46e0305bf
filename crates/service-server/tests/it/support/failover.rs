//! A primary with a synchronous standby.

use anyhow::{Result, ensure};
use service_testkit::{
    fault_proxy::FaultProxy,
    postgres::{Cluster, Stop},
    process::command,
    server::fresh_database,
    settings::Settings,
};
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    time::{Duration, Instant},
};
use tokio_postgres::{Client, NoTls};

pub(crate) const AT_MOST: Duration = Duration::from_secs(20);

/// A primary, its synchronous standby, and what lies between them.
pub(crate) struct Pair {
    pub(crate) primary: Cluster,
    pub(crate) standby: Cluster,
    pub(crate) between: FaultProxy,
    pub(crate) database: String,
}

pub(crate) async fn connect(cluster: &Cluster, database: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(&cluster.url(database), NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Returns when the server goes by a new value; an operator's own commits must not wait for it.
pub(crate) async fn set_standby_names(client: &Client, names: &str) -> Result<()> {
    client.batch_execute("set synchronous_commit = local").await?;
    client.batch_execute(&format!("alter system set synchronous_standby_names = '{names}'")).await?;
    client.batch_execute("select pg_reload_conf()").await?;
    while client.query_one("show synchronous_standby_names", &[]).await?.get::<_, String>(0) != names {}
    Ok(())
}

impl Pair {
    pub(crate) async fn start() -> Result<Self> {
        let primary = Cluster::start()?;
        let database = fresh_database(&primary).await?;
        let between = FaultProxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, primary.port())))?;
        let standby = Cluster::start_standby(between.address.port())?;
        let operator = connect(&primary, &database).await?;
        set_standby_names(&operator, "standby").await?;
        let is_synchronous = "select from pg_stat_replication where sync_state = 'sync'";
        let began = Instant::now();
        while operator.query_opt(is_synchronous, &[]).await?.is_none() {
            ensure!(began.elapsed() < AT_MOST, "the standby does not follow");
        }
        Ok(Self { primary, standby, between, database })
    }

    /// The address of a database that is at one of these servers, whichever takes writes, asked in this order.
    pub(crate) fn url(&self, servers: [&Cluster; 2]) -> String {
        let hosts = servers.map(|server| format!("127.0.0.1:{}", server.port())).join(",");
        format!("postgres://serviced@{hosts}/{}?target_session_attrs=read-write", self.database)
    }

    /// Cuts the primary off from its standby, but from no client, and promotes the standby.
    pub(crate) async fn fail_over(&self) -> Result<()> {
        self.between.cut();
        let operator = connect(&self.standby, &self.database).await?;
        operator.batch_execute("select pg_promote()").await?;
        set_standby_names(&operator, "").await
    }

    pub(crate) fn primary_url(&self) -> String {
        self.primary.service_url(&self.database)
    }

    pub(crate) fn standby_url(&self) -> String {
        self.standby.service_url(&self.database)
    }

    /// Changes something behind the service's back, and waits until the standby has it.
    pub(crate) async fn on_primary(&self, sql: &str) -> Result<()> {
        let client = connect(&self.primary, &self.database).await?;
        client.batch_execute("set synchronous_commit = remote_apply").await?;
        Ok(client.batch_execute(sql).await?)
    }

    /// Runs a statement on the server that was promoted.
    pub(crate) async fn on_standby(&self, sql: &str) -> Result<()> {
        Ok(connect(&self.standby, &self.database).await?.batch_execute(sql).await?)
    }

    /// An orderly stop of the primary would wait for the standby that it has lost.
    pub(crate) fn stop(&self) -> Result<()> {
        self.primary.stop(Stop::Immediate)
    }

    /// Revokes everything of a user, as an operator does, on the server that was promoted.
    pub(crate) fn disable(&self, settings: &Settings, address: &str) -> Result<()> {
        let mut settings = settings.clone();
        settings.set("database.url", &self.standby.service_url(&self.database));
        let subcommand = format!("admin user disable {address}");
        let output = command(Path::new(env!("CARGO_BIN_EXE_serviced")), &settings, &subcommand).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}
