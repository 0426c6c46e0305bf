//! Making connections: what the URL says, what we insist on beside it, and TLS.

use std::{future::poll_fn, net::IpAddr, time::Duration};

use deadpool_postgres::Connect;
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinHandle,
};
use tokio_postgres::{
    AsyncMessage, Client, Connection, Error, Socket,
    config::{Host, SslMode},
    error::Severity,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{config, tls};

/// Makes the connections of a pool.
pub(super) struct Connector {
    tls: MakeRustlsConnect,
}

pub(super) fn parts(settings: &config::Database) -> anyhow::Result<(tokio_postgres::Config, Connector)> {
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

/// The routine in PostgreSQL that warns of it; its words depend on the server's language.
const NOT_CONFIRMED: &str = "SyncRepWaitForLSN";

/// Carries a connection until it ends, or until a commit on it was not confirmed; says so when it is notified.
///
/// PostgreSQL warns, and then reports success, when the wait for a standby was cancelled: the transaction is here and
/// may be nowhere else. The warning comes before the success, and a connection that ends between the two leaves the
/// statement with the outcome it really has: unknown.
async fn drive<T>(mut connection: Connection<Socket, T>, mut notified: impl FnMut())
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        match message {
            AsyncMessage::Notice(notice) if notice.routine() == Some(NOT_CONFIRMED) => {
                tracing::error!("A commit was not confirmed by a standby; the connection is given up");
                return;
            }
            AsyncMessage::Notice(notice) if notice.parsed_severity() == Some(Severity::Warning) => {
                tracing::warn!(code = notice.code().code(), "The database warned");
            }
            AsyncMessage::Notification(_) => notified(),
            _ => {}
        }
    }
}

/// A connection outside any pool, for work that is not a request.
pub async fn connect(settings: &config::Database) -> anyhow::Result<Client> {
    let (url, Connector { tls }) = parts(settings)?;
    let (client, connection) =
        url.connect(tls).await.map_err(|error| anyhow::anyhow!("cannot connect to database.url: {}", cause(&error)))?;
    tokio::spawn(drive(connection, || {}));
    Ok(client)
}

/// Listens on a channel over a connection of its own until that ends; calls `notified` for each notification.
pub async fn listen(settings: &config::Database, channel: &str, notified: impl FnMut()) -> anyhow::Result<()> {
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

/// The URL's settings, with those that keep a dead peer from holding a connection.
fn connection_settings(settings: &config::Database) -> anyhow::Result<tokio_postgres::Config> {
    let mut url: tokio_postgres::Config =
        settings.url.parse().map_err(|_| anyhow::anyhow!("database.url is not a PostgreSQL address"))?;
    url.application_name("serviced")
        .connect_timeout(settings.deadline)
        .tcp_user_timeout(Duration::from_secs(10))
        .keepalives_idle(Duration::from_secs(10))
        .options(
            "-c idle_in_transaction_session_timeout=10s -c statement_timeout=5s -c lock_timeout=1s \
             -c client_connection_check_interval=1s",
        );
    require_tls_abroad(&mut url)?;
    Ok(url)
}

/// In clear only to a database on the same machine.
fn require_tls_abroad(url: &mut tokio_postgres::Config) -> anyhow::Result<()> {
    let is_here = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()),
    };
    if url.get_hosts().iter().all(is_here) {
        return Ok(());
    }
    match url.get_ssl_mode() {
        SslMode::Disable => anyhow::bail!("database.url disables TLS to another machine; leave sslmode out"),
        SslMode::Prefer => drop(url.ssl_mode(SslMode::Require)),
        _ => {}
    }
    Ok(())
}
