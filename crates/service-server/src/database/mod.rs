//! PostgreSQL: a pool of connections, a deadline round everything, and an honest word for what went wrong.
//!
//! A statement whose answer did not come in time has an unknown outcome. Nothing is cancelled: the connection is
//! dropped and never used again, and the caller learns that the outcome is unknown.

mod connect;

use std::{
    fmt,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::{Row, error::SqlState, types::ToSql};

pub use self::connect::{connect, listen};

pub type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

#[derive(Clone)]
pub struct Database {
    pool: Pool,
    deadline: Duration,
}

/// Why the database gave no answer.
#[derive(Debug)]
pub enum Error {
    /// It cannot be reached, is overloaded, read-only or too slow: the outcome is unknown, and trying again may help.
    Unavailable(String),
    /// It refused what it was asked: a defect of the service.
    Defect(String),
}

impl Database {
    /// Does not connect yet: up to so many connections are made when they are needed.
    pub fn new(settings: &crate::config::Database, connections: usize) -> anyhow::Result<Self> {
        let (url, connector) = connect::parts(settings)?;
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_connect(url, connector, recycling);
        let pool = Pool::builder(manager).max_size(connections).build()?;
        Ok(Self { pool, deadline: settings.deadline })
    }

    /// A connection on which every statement is a transaction of its own.
    pub async fn connect(&self) -> Result<Connection, Error> {
        self.connect_within(self.deadline).await
    }

    /// The same for work that may take longer.
    pub async fn connect_within(&self, limit: Duration) -> Result<Connection, Error> {
        let deadline = Instant::now() + limit;
        let client = timeout_at(deadline, self.pool.get())
            .await
            .map_err(|_| Error::Unavailable("no connection became free in time".into()))?
            .map_err(|error| Error::Unavailable(format!("no connection: {error}")))?;
        Ok(Connection { client: Some(client), deadline, unanswered: AtomicUsize::new(0), in_transaction: false })
    }

    /// A connection in a transaction, which ends with [`Connection::commit`] or is rolled back.
    pub async fn begin(&self) -> Result<Connection, Error> {
        self.begin_within(self.deadline).await
    }

    /// The same for work that may take longer.
    pub async fn begin_within(&self, limit: Duration) -> Result<Connection, Error> {
        let mut connection = self.connect_within(limit).await?;
        connection.in_transaction = true;
        connection.batch("begin").await?;
        Ok(connection)
    }

    /// How many connections there are, and how many of them are free.
    #[must_use]
    pub fn usage(&self) -> (usize, usize) {
        let status = self.pool.status();
        (status.size, status.available)
    }
}

pub struct Connection {
    /// `None` only while it is being dropped.
    client: Option<Object>,
    deadline: Instant,
    /// Statements under way. Any left when the connection is dropped: their answers never came.
    unanswered: AtomicUsize,
    in_transaction: bool,
}

impl Connection {
    pub async fn query(&self, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>, Error> {
        self.answer(async |client| {
            let statement = client.prepare_cached(sql).await?;
            client.query(&statement, parameters).await
        })
        .await
    }

    pub async fn query_opt(&self, sql: &str, parameters: Parameters<'_>) -> Result<Option<Row>, Error> {
        Ok(self.query(sql, parameters).await?.into_iter().next())
    }

    pub async fn execute(&self, sql: &str, parameters: Parameters<'_>) -> Result<u64, Error> {
        self.answer(async |client| {
            let statement = client.prepare_cached(sql).await?;
            client.execute(&statement, parameters).await
        })
        .await
    }

    pub async fn commit(mut self) -> Result<(), Error> {
        self.batch("commit").await?;
        self.in_transaction = false;
        Ok(())
    }

    async fn batch(&self, sql: &str) -> Result<(), Error> {
        self.answer(async |client| client.batch_execute(sql).await).await
    }

    async fn answer<T>(&self, ask: impl AsyncFnOnce(&Object) -> Result<T, tokio_postgres::Error>) -> Result<T, Error> {
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
            // Goes back to the pool only once it is clean again.
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

/// Never the detail, hint or statement of an error: PostgreSQL quotes rows and values there.
impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(reported) = error.as_db_error() else {
            return if error.is_closed()
                || std::error::Error::source(&error).is_some_and(<dyn std::error::Error>::is::<std::io::Error>)
            {
                Self::Unavailable("the connection broke".into())
            } else {
                Self::Defect(format!("the driver refused: {error}"))
            };
        };
        let text = format!("{} {}", reported.code().code(), reported.message());
        let class = &reported.code().code()[..2];
        // A month of audit events began at this moment; the next try finds it.
        let month_began = reported.table() == Some("audit_events_of_no_month") && class == "23";
        let passing = matches!(class, "08" | "40" | "53" | "55" | "57" | "58")
            || month_began
            || *reported.code() == SqlState::READ_ONLY_SQL_TRANSACTION;
        if passing { Self::Unavailable(text) } else { Self::Defect(text) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(what) => write!(f, "the database is not available: {what}"),
            Self::Defect(what) => write!(f, "the database refused a statement: {what}"),
        }
    }
}

impl std::error::Error for Error {}
