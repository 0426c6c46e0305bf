//! The hosts of a database URL, tried one after the other.
//!
//! The driver tries hosts in their order too, but its timeout ends with the TCP connection. A server that hangs accepts that,
//! and would keep a node from ever reaching the next host.

use std::{net::IpAddr, time::Duration};

use anyhow::Context as _;
use tokio::time::timeout;
use tokio_postgres::{
    Client, Config, Connection, Error, Socket,
    config::{Host, SslMode},
    tls::MakeTlsConnect,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{config, net::tls};

type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// The hosts of a URL.
pub(super) struct Hosts {
    /// The settings of the URL with each of its hosts but the last, in their order.
    others: Vec<Config>,
    last: Config,
    tls: MakeRustlsConnect,
    /// How long each host but the last has for the whole handshake.
    patience: Duration,
}

impl Hosts {
    pub(super) fn new(settings: &config::DatabaseConfig) -> anyhow::Result<Self> {
        let url = &settings.url;
        let ca_file = url.ca_file.as_deref().or(settings.ca_file.as_deref());
        let tls = MakeRustlsConnect::new(tls::client(ca_file, url.client_certificate.as_ref())?);
        let mut others = split(&connection_settings(settings)?);
        let patience = settings.deadline / u32::try_from(others.len())?;
        let last = others.pop().context("database.url names no host")?;
        Ok(Self { others, last, tls, patience })
    }

    /// Connects to the first host that is what the URL asks for. The caller limits the time for all of them.
    pub(super) async fn connect(&self) -> Result<(Client, Connection<Socket, Stream>), Error> {
        // Boxed, because the driver's futures are large.
        for settings in &self.others {
            let connecting = Box::pin(settings.connect(self.tls.clone()));
            if let Ok(Ok(connected)) = timeout(self.patience, connecting).await {
                return Ok(connected);
            }
        }
        Box::pin(self.last.connect(self.tls.clone())).await
    }

    /// The settings, for the pool's own use.
    pub(super) fn settings(&self) -> Config {
        self.last.clone()
    }
}

/// Splits settings with several hosts into settings with one each.
fn split(url: &Config) -> Vec<Config> {
    let count = url.get_hosts().len().max(url.get_hostaddrs().len());
    if count <= 1 {
        return vec![url.clone()];
    }
    (0..count).map(|number| with_host(url, number)).collect()
}

fn with_host(url: &Config, number: usize) -> Config {
    let mut one = Config::new();
    match url.get_hosts().get(number) {
        Some(Host::Tcp(name)) => drop(one.host(name)),
        Some(Host::Unix(path)) => drop(one.host_path(path)),
        None => {}
    }
    if let Some(address) = url.get_hostaddrs().get(number) {
        one.hostaddr(*address);
    }
    // One port stands for all hosts.
    if let Some(port) = url.get_ports().get(number).or(url.get_ports().first()) {
        one.port(*port);
    }
    if let Some(user) = url.get_user() {
        one.user(user);
    }
    if let Some(password) = url.get_password() {
        one.password(password);
    }
    if let Some(name) = url.get_dbname() {
        one.dbname(name);
    }
    if let Some(options) = url.get_options() {
        one.options(options);
    }
    if let Some(name) = url.get_application_name() {
        one.application_name(name);
    }
    for (wait, set) in [
        (url.get_connect_timeout(), Config::connect_timeout as fn(&mut Config, Duration) -> &mut Config),
        (url.get_tcp_user_timeout(), Config::tcp_user_timeout),
    ] {
        if let Some(wait) = wait {
            set(&mut one, *wait);
        }
    }
    if let Some(interval) = url.get_keepalives_interval() {
        one.keepalives_interval(interval);
    }
    if let Some(retries) = url.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    one.keepalives(url.get_keepalives())
        .keepalives_idle(url.get_keepalives_idle())
        .ssl_mode(url.get_ssl_mode())
        .ssl_negotiation(url.get_ssl_negotiation())
        .channel_binding(url.get_channel_binding())
        .target_session_attrs(url.get_target_session_attrs());
    one
}

/// Returns the settings of the URL, with timeouts that detect a dead server.
fn connection_settings(settings: &config::DatabaseConfig) -> anyhow::Result<Config> {
    let mut url: Config =
        settings.url.text.parse().map_err(|_| anyhow::anyhow!("database.url is not a PostgreSQL address"))?;
    url.application_name("serviced")
        .connect_timeout(settings.deadline)
        .tcp_user_timeout(Duration::from_secs(10))
        .keepalives_idle(Duration::from_secs(10))
        .options(
            "-c idle_in_transaction_session_timeout=10s -c statement_timeout=5s -c lock_timeout=1s \
             -c client_connection_check_interval=1s -c synchronous_commit=on \
             -c default_transaction_isolation=read\\ committed",
        );
    require_tls_abroad(&mut url)?;
    Ok(url)
}

/// Requires TLS, except to a database on the same machine.
fn require_tls_abroad(url: &mut Config) -> anyhow::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A setting that the driver has and that is not copied would be lost without a word.
    #[test]
    fn each_host_has_all_settings_of_the_url() {
        let url: Config =
            "postgres://ann:secret@a.test:1,b.test:2/service?connect_timeout=3&tcp_user_timeout=4&keepalives=0\
                           &keepalives_idle=5&keepalives_interval=6&keepalives_retries=7&sslmode=require\
                           &sslnegotiation=direct&channel_binding=require&target_session_attrs=read-write\
                           &application_name=serviced&options=-c%20a%3Db"
                .parse()
                .unwrap();
        let second: Config = "postgres://ann:secret@b.test:2/service?connect_timeout=3&tcp_user_timeout=4&keepalives=0\
                              &keepalives_idle=5&keepalives_interval=6&keepalives_retries=7&sslmode=require\
                              &sslnegotiation=direct&channel_binding=require&target_session_attrs=read-write\
                              &application_name=serviced&options=-c%20a%3Db"
            .parse()
            .unwrap();
        let hosts = split(&url);
        assert_eq!(hosts.len(), 2);
        assert_eq!(hosts[1], second);
        let one_port: Config = "host=a.test,b.test port=7 user=ann".parse().unwrap();
        assert_eq!(split(&one_port)[1], "host=b.test port=7 user=ann".parse().unwrap());
    }
}
