//! A DNS server on loopback, with the records that a test gives it.

use std::{
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, SocketAddr},
    process::{Child, ChildStderr, Command, Stdio},
    sync::{Mutex, PoisonError},
};

use anyhow::{Context as _, Result, bail};

use crate::ports;

/// A DNS record.
#[derive(Clone, Copy, Debug)]
pub enum Record<'a> {
    Txt { name: &'a str, value: &'a str },
    Cname { name: &'a str, target: &'a str },
}

/// A running `dnsmasq` that knows all domains below `test` and `example`. It is killed when dropped.
pub struct DnsServer {
    pub address: SocketAddr,
    process: Mutex<Option<Dnsmasq>>,
}

struct Dnsmasq {
    child: Child,
    /// Kept open, so that the server can write its log.
    log: BufReader<ChildStderr>,
}

impl DnsServer {
    /// Starts a server without records: no domain exists.
    pub fn start() -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()?));
        let server = Self { address, process: Mutex::new(None) };
        server.serve(&[])?;
        Ok(server)
    }

    /// Replaces all records. Returns when the server answers with the new ones.
    pub fn serve(&self, records: &[Record<'_>]) -> Result<()> {
        let records = records.iter().map(|record| match record {
            Record::Txt { name, value } => format!("--txt-record={name},{value}"),
            Record::Cname { name, target } => format!("--cname={name},{target}"),
        });
        self.restart(records.chain(["--local=/test/example/".to_owned()]).collect())
    }

    /// Refuses every query from now on.
    pub fn refuse(&self) -> Result<()> {
        self.restart(Vec::new())
    }

    fn restart(&self, mut arguments: Vec<String>) -> Result<()> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        // The former process frees the port before the next one takes it.
        drop(process.take());
        arguments.push(format!("--port={}", self.address.port()));
        *process = Some(Dnsmasq::spawn(&arguments)?);
        Ok(())
    }
}

impl Dnsmasq {
    fn spawn(arguments: &[String]) -> Result<Self> {
        let program = if std::fs::exists("/usr/sbin/dnsmasq")? { "/usr/sbin/dnsmasq" } else { "dnsmasq" };
        let mut child = Command::new(program)
            .args(["--keep-in-foreground", "--conf-file=/dev/null", "--pid-file=", "--log-facility=-"])
            .args(["--no-resolv", "--no-hosts", "--listen-address=127.0.0.1", "--bind-interfaces"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start dnsmasq: is it installed?")?;
        let log = child.stderr.take().context("dnsmasq has no log")?;
        let mut process = Self { child, log: BufReader::new(log) };
        let mut said = String::new();
        // The server writes this line when it listens.
        while !said.contains("started, version") {
            if process.log.read_line(&mut said)? == 0 {
                bail!("dnsmasq ended at once: {said}");
            }
        }
        Ok(process)
    }
}

impl Drop for Dnsmasq {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
