//! Database connections: settings of the URL, required settings, and TLS.

use std::{future::poll_fn, net::IpAddr, sync::Arc, time::Duration};

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
use crate::{config, net::tls, store::servers::IDENTIFY};

/// Makes the connections of a pool.
pub(super) struct Connector {
    tls: MakeRustlsConnect,
}

pub(super) fn parts(settings: &config::DatabaseConfig) -> anyhow::Result<(tokio_postgres::Config, Connector)> {
    Ok((
        connection_settings(settings)?,
        Connector { tls: MakeRustlsConnect::new(tls::client(settings.ca_file.as_deref())?) },
    ))
}

impl Connect for Connector {
    fn connect(&self, url: &tokio_postgres::Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Error>> {
        let url = url.clone();
        async move {
            let (client, connection) = url.connect(self.tls.clone()).await?;
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
    let (url, Connector { tls }) = parts(settings)?;
    let (client, connection) =
        url.connect(tls).await.map_err(|error| anyhow::anyhow!("cannot connect to database.url: {}", cause(&error)))?;
    tokio::spawn(drive(connection, || {}));
    Ok(client)
}

/// Listens on a channel over its own connection until that closes; calls `notified` for each notification.
pub async fn listen(settings: &config::DatabaseConfig, channel: &str, notified: impl FnMut()) -> anyhow::Result<()> {
    let (url, Connector { tls }) = parts(settings)?;
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

fn cause(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// Returns the settings of the URL, with timeouts that detect a dead server.
fn connection_settings(settings: &config::DatabaseConfig) -> anyhow::Result<tokio_postgres::Config> {
    let mut url: tokio_postgres::Config =
        settings.url.parse().map_err(|_| anyhow::anyhow!("database.url is not a PostgreSQL address"))?;
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
