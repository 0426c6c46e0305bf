//! PostgreSQL: connection pools, statement timeouts, and errors.
//!
//! A statement that did not return within the timeout has an unknown outcome. It is not cancelled: the connection is
//! closed, and the caller gets [`Error::Unavailable`].

mod connect;
mod hosts;
pub mod migrations;
pub mod restore_fence;
mod servers;
pub mod table_walk;

use std::{
    panic::Location,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod};
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::{
    Row,
    error::SqlState,
    types::{ToSql, Type},
};

use self::connect::{Connector, Target};
pub use self::{
    connect::{commits_wait, connect},
    servers::{Comparison, FormerPrimary, Identity, Servers},
};
use crate::telemetry::traces::{self, ActiveSpan};

pub type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];
pub type TypedParameters<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// A pool of connections.
#[derive(Clone)]
pub struct Database {
    pool: Pool,
    target: Arc<Target>,
    deadline: Duration,
    /// Its connections wait while one of these is not compared yet.
    compared: Option<Arc<Servers>>,
    /// Observes how long callers wait for a connection.
    waits: Option<Histogram>,
}

/// Why the database returned no result.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// PostgreSQL cannot be reached, is overloaded, read-only or too slow. The outcome is unknown, and a retry may succeed.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// PostgreSQL rejected a statement: a defect of the service.
    #[error("the database refused a statement: {0}")]
    Defect(String),
}

impl Error {
    /// The kind of the error, for traces.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "unavailable",
            Self::Defect(_) => "defect",
        }
    }
}

impl Database {
    /// Creates a pool of up to `connections` connections, which are opened when they are needed.
    ///
    /// All pools of a node share `servers`. No connection is opened to a former primary, and existing ones are closed
    /// as soon as its successor was seen. Callers get a connection to the successor when it has been compared with the
    /// recorded server: it may be a restored backup.
    pub fn new(
        settings: &crate::config::DatabaseConfig,
        connections: usize,
        servers: &Arc<Servers>,
    ) -> anyhow::Result<Self> {
        Ok(Self { compared: Some(servers.clone()), ..Self::any_server(settings, connections, servers)? })
    }

    /// Creates a pool with one connection that does not wait for the comparison of a server: for the comparison itself, for
    /// heartbeats, and for revocations, which count only with a heartbeat.
    pub fn for_comparison(settings: &crate::config::DatabaseConfig, servers: &Arc<Servers>) -> anyhow::Result<Self> {
        Self::any_server(settings, 1, servers)
    }

    fn any_server(
        settings: &crate::config::DatabaseConfig,
        connections: usize,
        servers: &Arc<Servers>,
    ) -> anyhow::Result<Self> {
        let (target, manager) = manager(settings)?;
        let (seen, current) = (servers.clone(), servers.clone());
        let pool = Pool::builder(manager)
            .max_size(connections)
            .post_create(Hook::async_fn(move |client, _| Box::pin(connect::identify(client, seen.clone()))))
            .pre_recycle(Hook::sync_fn(move |_, metrics| {
                let is_current = current.is_current(metrics.created);
                is_current.then_some(()).ok_or(HookError::message("it leads to a former primary"))
            }))
            .build()?;
        Ok(Self { pool, target, deadline: settings.deadline, compared: None, waits: None })
    }

    /// Creates a pool with one connection to a server that only revocations are read from, whichever server that is. What
    /// this server says about itself does not concern the other pools.
    pub fn for_feed(settings: &crate::config::DatabaseConfig) -> anyhow::Result<Self> {
        let (target, manager) = manager(settings)?;
        let pool = Pool::builder(manager).max_size(1).build()?;
        Ok(Self { pool, target, deadline: settings.deadline, compared: None, waits: None })
    }

    /// Lets this histogram observe how long callers wait for a connection.
    #[must_use]
    pub fn observed_by(self, waits: &Histogram) -> Self {
        Self { waits: Some(waits.clone()), ..self }
    }

    /// Reads URL and certificates again, for new connections. On failure nothing changes.
    pub fn reload(&self, settings: &crate::config::DatabaseConfig) -> anyhow::Result<()> {
        self.target.replace(settings)
    }

    /// Listens on a channel over its own connection until that closes; calls `notified` for each notification.
    pub async fn listen(&self, channel: &str, notified: impl FnMut()) -> anyhow::Result<()> {
        connect::listen(&self.target, channel, notified).await
    }

    /// Returns a connection on which each statement commits by itself.
    pub async fn connect(&self) -> Result<Connection, Error> {
        self.connect_within(self.deadline).await
    }

    /// Returns a connection on which each statement commits by itself, with another timeout.
    pub async fn connect_within(&self, limit: Duration) -> Result<Connection, Error> {
        let span = traces::part(["connection", ""]);
        let began = Instant::now();
        let deadline = began + limit;
        let got = timeout_at(deadline, self.usable_client()).await;
        if let Some(waits) = &self.waits {
            waits.observe(began.elapsed().as_secs_f64());
        }
        let got = got.unwrap_or_else(|_| Err(Error::Unavailable(self.why_late().into())));
        traces::end(span, got.as_ref().err().map(Error::kind));
        let client = got?;
        Ok(Connection { client: Some(client), deadline, unanswered: AtomicUsize::new(0), in_transaction: false })
    }

    /// Why a caller got no connection in time.
    fn why_late(&self) -> &'static str {
        let is_pending = |servers: &Arc<Servers>| servers.comparison() == Comparison::Pending;
        if self.compared.as_ref().is_some_and(is_pending) {
            "another server took over and was not compared in time"
        } else {
            "no connection became free in time"
        }
    }

    /// Returns a connection to a server that was compared with the recorded one.
    async fn usable_client(&self) -> Result<Object, Error> {
        loop {
            let got = self.pool.get().await;
            let client = got.map_err(|error| Error::Unavailable(format!("no connection: {error}")))?;
            let Some(servers) = &self.compared else { return Ok(client) };
            servers.until_compared().await.map_err(|fenced| Error::Unavailable(fenced.to_string()))?;
            // What was compared may be another server than the one that this connection leads to.
            if servers.is_current(Object::metrics(&client).created) {
                return Ok(client);
            }
            drop(Object::take(client));
        }
    }

    /// Begins a transaction. It ends with [`Connection::commit`], or is rolled back when dropped.
    pub async fn begin(&self) -> Result<Connection, Error> {
        self.begin_within(self.deadline).await
    }

    /// Begins a transaction with another timeout.
    pub async fn begin_within(&self, limit: Duration) -> Result<Connection, Error> {
        let mut connection = self.connect_within(limit).await?;
        connection.in_transaction = true;
        connection.batch("begin").await?;
        Ok(connection)
    }

    /// Returns the number of connections.
    #[must_use]
    pub fn usage(&self) -> PoolUsage {
        let status = self.pool.status();
        PoolUsage { connections: status.size, idle: status.available }
    }
}

fn manager(settings: &crate::config::DatabaseConfig) -> anyhow::Result<(Arc<Target>, Manager)> {
    let target = Arc::new(Target::new(settings)?);
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    Ok((target.clone(), Manager::from_connect(target.settings(), Connector(target), recycling)))
}

/// The connections of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolUsage {
    /// All open connections.
    pub connections: usize,
    /// Those of them that are idle.
    pub idle: usize,
}

/// A connection from a pool.
pub struct Connection {
    /// `None` only while it is being dropped.
    client: Option<Object>,
    deadline: Instant,
    /// The number of statements without a result. If it is not zero when the connection is dropped, their outcomes are
    /// unknown.
    unanswered: AtomicUsize,
    in_transaction: bool,
}

impl Connection {
    /// Runs a statement and returns its rows.
    #[track_caller]
    pub fn query(&self, sql: &str, parameters: Parameters<'_>) -> impl Future<Output = Result<Vec<Row>, Error>> {
        let span = traces::statement(sql, Location::caller());
        Box::pin(self.answer(span, async move |client| {
            let statement = client.prepare_cached(sql).await?;
            client.query(&statement, parameters).await
        }))
    }

    /// Runs a statement without preparing it, so that it also runs behind a connection pooler, and returns its rows.
    #[track_caller]
    pub fn query_unnamed(
        &self,
        sql: &str,
        parameters: TypedParameters<'_>,
    ) -> impl Future<Output = Result<Vec<Row>, Error>> {
        let span = traces::statement(sql, Location::caller());
        Box::pin(self.answer(span, async move |client| client.query_typed(sql, parameters).await))
    }

    /// Runs a statement and returns its first row.
    #[track_caller]
    pub fn query_opt(&self, sql: &str, parameters: Parameters<'_>) -> impl Future<Output = Result<Option<Row>, Error>> {
        let rows = self.query(sql, parameters);
        async { Ok(rows.await?.into_iter().next()) }
    }

    /// Runs a statement and returns the number of rows it changed.
    #[track_caller]
    pub fn execute(&self, sql: &str, parameters: Parameters<'_>) -> impl Future<Output = Result<u64, Error>> {
        let span = traces::statement(sql, Location::caller());
        Box::pin(self.answer(span, async move |client| {
            let statement = client.prepare_cached(sql).await?;
            client.execute(&statement, parameters).await
        }))
    }

    /// Commits the transaction.
    pub async fn commit(mut self) -> Result<(), Error> {
        self.batch("commit").await?;
        self.in_transaction = false;
        Ok(())
    }

    async fn batch(&self, sql: &'static str) -> Result<(), Error> {
        Box::pin(self.answer(traces::part([sql, ""]), async |client| client.batch_execute(sql).await)).await
    }

    /// Runs a statement within the timeout, and ends its span.
    async fn answer<T>(
        &self,
        span: Option<ActiveSpan>,
        ask: impl AsyncFnOnce(&Object) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, Error> {
        let answer = self.ask(ask).await;
        traces::end(span, answer.as_ref().err().map(Error::kind));
        answer
    }

    async fn ask<T>(&self, ask: impl AsyncFnOnce(&Object) -> Result<T, tokio_postgres::Error>) -> Result<T, Error> {
        let client = self.client.as_ref().ok_or_else(|| Error::Unavailable("the connection is gone".into()))?;
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        let answer = timeout_at(self.deadline, ask(client)).await;
        match answer {
            Ok(answer) => {
                self.unanswered.fetch_sub(1, Ordering::Relaxed);
                answer.map_err(Error::from)
            }
            Err(_) => Err(Error::Unavailable("no answer in time; the outcome is unknown".into())),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else { return };
        if self.unanswered.load(Ordering::Relaxed) > 0 {
            drop(Object::take(client));
        } else if self.in_transaction {
            // The connection returns to the pool after the rollback.
            match tokio::runtime::Handle::try_current() {
                Ok(runtime) => drop(runtime.spawn(roll_back(client))),
                Err(_) => drop(Object::take(client)),
            }
        }
    }
}

async fn roll_back(client: Object) {
    let deadline = Instant::now() + Duration::from_secs(2);
    if !matches!(timeout_at(deadline, client.batch_execute("rollback")).await, Ok(Ok(()))) {
        drop(Object::take(client));
    }
}

/// The error never contains detail, hint or statement, because PostgreSQL quotes rows and values there.
impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(reported) = error.as_db_error() else {
            return if connect::is_network_failure(&error) {
                Self::Unavailable("the connection broke".into())
            } else {
                Self::Defect(format!("the driver refused: {error}"))
            };
        };
        let text = format!("{} {}", reported.code().code(), reported.message());
        let class = &reported.code().code()[..2];
        // A partition of audit events was created at this moment. A retry succeeds.
        let month_began = reported.table() == Some("audit_events_of_no_month") && class == "23";
        let passing = matches!(class, "08" | "40" | "53" | "55" | "57" | "58")
            || month_began
            || *reported.code() == SqlState::READ_ONLY_SQL_TRANSACTION;
        if passing { Self::Unavailable(text) } else { Self::Defect(text) }
    }
}
