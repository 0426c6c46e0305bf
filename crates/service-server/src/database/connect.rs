//! Database connections: settings of the URL, required settings, and TLS.

use std::{
    future::poll_fn,
    net::IpAddr,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use deadpool_postgres::{ClientWrapper, Connect, HookError};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinHandle,
};
use tokio_postgres::{
    AsyncMessage, Client, Connection, Error, SimpleQueryMessage, Socket,
    config::{Host, SslMode},
    error::Severity,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::database::servers::{Identity, Servers};
use crate::{config, database, net::tls, store::servers::IDENTIFY};

/// Where a pool connects to. It can be replaced while the pool is in use: new connections go to the new one.
pub(super) struct Target(RwLock<(tokio_postgres::Config, MakeRustlsConnect)>);

impl Target {
    pub(super) fn new(settings: &config::DatabaseConfig) -> anyhow::Result<Self> {
        Ok(Self(RwLock::new(parts(settings)?)))
    }

    /// Reads URL and certificates again. On failure nothing changes.
    pub(super) fn replace(&self, settings: &config::DatabaseConfig) -> anyhow::Result<()> {
        let parts = parts(settings)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = parts;
        Ok(())
    }

    pub(super) fn url(&self) -> tokio_postgres::Config {
        self.current().0
    }

    fn current(&self) -> (tokio_postgres::Config, MakeRustlsConnect) {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Makes the connections of a pool.
pub(super) struct Connector(pub(super) Arc<Target>);

fn parts(settings: &config::DatabaseConfig) -> anyhow::Result<(tokio_postgres::Config, MakeRustlsConnect)> {
    let url = &settings.url;
    let ca_file = url.ca_file.as_deref().or(settings.ca_file.as_deref());
    let tls = MakeRustlsConnect::new(tls::client(ca_file, url.client_certificate.as_ref())?);
    Ok((connection_settings(settings)?, tls))
}

impl Connect for Connector {
    fn connect(&self, _: &tokio_postgres::Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Error>> {
        async move {
            let (url, tls) = self.0.current();
            let (client, connection) = url.connect(tls).await?;
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
    let (url, tls) = parts(settings)?;
    let (client, connection) = url.connect(tls).await.map_err(|error| {
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
    let (url, tls) = target.current();
    let (client, connection) = url.connect(tls).await?;
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

/// Returns the settings of the URL, with timeouts that detect a dead server.
fn connection_settings(settings: &config::DatabaseConfig) -> anyhow::Result<tokio_postgres::Config> {
    let mut url: tokio_postgres::Config =
        settings.url.text.parse().map_err(|_| anyhow::anyhow!("database.url is not a PostgreSQL address"))?;
    url.application_name("serviced")
        .connect_timeout(settings.deadline)
        .tcp_user_timeout(Duration::from_secs(10))
        .keepalives_idle(Duration::from_secs(10))
        .options(
            "-c idle_in_transaction_session_timeout=10s -c statement_timeout=5s -c lock_timeout=1s \
             -c client_connection_check_interval=1s -c synchronous_commit=on",
        );
    require_tls_abroad(&mut url)?;
    Ok(url)
}

/// Requires TLS, except to a database on the same machine.
fn require_tls_abroad(url: &mut tokio_postgres::Config) -> anyhow::Result<()> {
    let is_here = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()),
    };
    // `hostaddr` overrides the host name.
    let addressed_here = url.get_hostaddrs().iter().all(IpAddr::is_loopback);
    if addressed_here && url.get_hosts().iter().all(is_here) {
        return Ok(());
    }
    match url.get_ssl_mode() {
        SslMode::Disable => anyhow::bail!("database.url disables TLS to another machine; leave sslmode out"),
        SslMode::Prefer => drop(url.ssl_mode(SslMode::Require)),
        _ => {}
    }
    Ok(())
}
