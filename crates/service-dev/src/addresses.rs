//! The addresses of the development server: fixed ports on this machine only.
//!
//! The host name is `localhost`, because passkeys need a name. Browsers resolve it to `::1` and to `127.0.0.1`, so both
//! are listened on. A port of which another program has one of the two is refused, because the browser could reach that
//! program instead.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use anyhow::{Result, bail};
use service_testkit::ports;

use crate::Options;

/// The ports that were chosen.
pub(crate) struct Addresses {
    service: u16,
    mailbox: u16,
    ops: u16,
    database: u16,
}

impl Addresses {
    /// Takes the ports of the options. A port 0 becomes a free one.
    pub(crate) fn choose(options: &Options) -> Result<Self> {
        let chosen = |port: u16| if port == 0 { free_port() } else { Ok(port) };
        Ok(Self {
            service: chosen(options.port)?,
            mailbox: chosen(options.mailbox_port)?,
            ops: chosen(options.ops_port)?,
            database: chosen(options.database_port)?,
        })
    }

    /// Fails if another program listens on one of the ports.
    pub(crate) fn check_free(&self) -> Result<()> {
        let local = |port| vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))];
        for (addresses, option) in [
            (self.service(), "--port"),
            (self.mailbox(), "--mailbox-port"),
            (local(self.ops), "--ops-port"),
            (local(self.database), "--database-port"),
        ] {
            for address in addresses {
                if let Err(error) = TcpListener::bind(address) {
                    bail!(
                        "cannot listen on {address}: {error}. Stop the program that uses this port, or choose another one \
                         with {option}"
                    );
                }
            }
        }
        Ok(())
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://localhost:{}", self.service)
    }

    pub(crate) fn mailbox_url(&self) -> String {
        format!("http://localhost:{}", self.mailbox)
    }

    pub(crate) fn ops_url(&self) -> String {
        format!("http://{}", self.ops())
    }

    /// Returns the URL of the database without its password.
    pub(crate) fn database_url(&self) -> String {
        format!("postgres://serviced@127.0.0.1:{}/serviced", self.database)
    }

    /// Returns the addresses of the service, the one of IPv4 first.
    pub(crate) fn service(&self) -> Vec<SocketAddr> {
        at_localhost(self.service)
    }

    pub(crate) fn mailbox(&self) -> Vec<SocketAddr> {
        at_localhost(self.mailbox)
    }

    pub(crate) fn ops(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ops).into()
    }

    pub(crate) fn database_port(&self) -> u16 {
        self.database
    }
}

/// Returns what `localhost` resolves to on this machine.
fn at_localhost(port: u16) -> Vec<SocketAddr> {
    let mut addresses = vec![IpAddr::from(Ipv4Addr::LOCALHOST)];
    if has_ipv6() {
        addresses.push(Ipv6Addr::LOCALHOST.into());
    }
    addresses.into_iter().map(|address| (address, port).into()).collect()
}

/// Whether this machine has the address `::1`.
fn has_ipv6() -> bool {
    TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

fn free_port() -> Result<u16> {
    loop {
        let port = ports::free()?;
        if at_localhost(port).iter().all(|address| TcpListener::bind(address).is_ok()) {
            return Ok(port);
        }
    }
}
