//! Database connections: how they are opened, checked and driven.

use std::{
    future::poll_fn,
    sync::{Arc, PoisonError, RwLock},
};

use deadpool_postgres::{ClientWrapper, Connect, HookError};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinHandle,
};
use tokio_postgres::{AsyncMessage, Client, Connection, Error, SimpleQueryMessage, Socket, error::Severity};

use crate::database::hosts::Hosts;
use crate::database::servers::{Identity, Servers};
use crate::{config, database, store::servers::IDENTIFY};

/// Where a pool connects to. It can be replaced while the pool is in use: new connections go to the new one.
pub(super) struct Target(RwLock<Arc<Hosts>>);

impl Target {
    pub(super) fn new(settings: &config::DatabaseConfig) -> anyhow::Result<Self> {
        Ok(Self(RwLock::new(Arc::new(Hosts::new(settings)?))))
    }

    /// Reads URL and certificates again. On failure nothing changes.
    pub(super) fn replace(&self, settings: &config::DatabaseConfig) -> anyhow::Result<()> {
        let hosts = Arc::new(Hosts::new(settings)?);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = hosts;
        Ok(())
    }

    pub(super) fn settings(&self) -> tokio_postgres::Config {
        self.current().settings()
    }

    fn current(&self) -> Arc<Hosts> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Makes the connections of a pool.
pub(super) struct Connector(pub(super) Arc<Target>);

impl Connect for Connector {
    fn connect(&self, _: &tokio_postgres::Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Error>> {
        async move {
            let (client, connection) = self.0.current().connect().await?;
            Ok((client, tokio::spawn(drive(connection, || {}))))
        }
        .boxed()
    }
}

/// Checks the server of a new connection. Refuses a former primary, and a server that confirms commits before they are
/// safe.
pub(super) async fn identify(client: &ClientWrapper, servers: Arc<Servers>) -> Result<(), HookError> {
    let messages = client.simple_query(IDENTIFY).await.map_err(HookError::Backend)?;
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let column = |name| row.and_then(|row| row.get(name)).unwrap_or_default();
    if !commits_wait(column("synchronous_commit")) {
        return Err(HookError::message("synchronous_commit is off there, so commits could be lost"));
    }
    let identity = Identity::parse(column("system"), column("timeline"));
    let identity = identity.ok_or(HookError::message("the server does not say who it is"))?;
    servers.record(&identity).map_err(|_| HookError::message("it leads to a former primary"))
}

/// Whether a commit is confirmed only when it is safe: on the local disk, and on the synchronous standby if there is
/// one.
#[must_use]
pub fn commits_wait(synchronous_commit: &str) -> bool {
    matches!(synchronous_commit, "on" | "remote_apply" | "remote_write")
}

/// The routine in PostgreSQL that reports an unconfirmed commit. The text of the warning depends on the server's
/// language.
const NOT_CONFIRMED: &str = "SyncRepWaitForLSN";

/// Drives a connection until it closes, or until a commit on it was not confirmed. Calls `notified` for each
/// notification.
///
/// When the wait for a standby is cancelled, PostgreSQL sends a warning and then reports success, although the
/// transaction may only exist on this server. The warning arrives before the success. Closing the connection in between
/// leaves the statement with its true outcome: unknown.
async fn drive<T>(mut connection: Connection<Socket, T>, mut notified: impl FnMut())
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        match message {
            AsyncMessage::Notice(notice) if notice.routine() == Some(NOT_CONFIRMED) => {
                tracing::error!("A commit was not confirmed by a standby; closing the connection");
                return;
            }
            AsyncMessage::Notice(notice) if notice.parsed_severity() == Some(Severity::Warning) => {
                tracing::warn!(code = notice.code().code(), "The database sent a warning");
            }
            AsyncMessage::Notification(_) => notified(),
            _ => {}
        }
    }
}

/// Opens a connection outside of the pools, for work that is not a request.
pub async fn connect(settings: &config::DatabaseConfig) -> anyhow::Result<Client> {
    let (client, connection) = Hosts::new(settings)?.connect().await.map_err(|error| {
        let context = format!("cannot connect to database.url: {}", cause(&error));
        match database::Error::from(error) {
            unavailable @ database::Error::Unavailable(_) => anyhow::Error::new(unavailable).context(context),
            database::Error::Defect(_) => anyhow::anyhow!(context),
        }
    })?;
    tokio::spawn(drive(connection, || {}));
    Ok(client)
}

/// Listens on a channel over its own connection until that closes; calls `notified` for each notification.
pub(super) async fn listen(target: &Target, channel: &str, notified: impl FnMut()) -> anyhow::Result<()> {
    let (client, connection) = target.current().connect().await?;
    let listening = async {
        client.batch_execute(&format!("listen {channel}")).await?;
        std::future::pending::<anyhow::Result<()>>().await
    };
    tokio::select! {
        () = drive(connection, notified) => Ok(()),
        failed = listening => failed,
    }
}

/// Whether the server could not be reached, closed the connection, or takes none at the moment. A wrong password, an unknown
/// database and an untrusted certificate are no such failures: they need another configuration.
pub(super) fn is_network_failure(error: &Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
    let is_of_tls = |error: &std::io::Error| {
        error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>)
    };
    error.is_closed() || cause.is_some_and(|cause| !is_of_tls(cause))
}

fn cause(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}
