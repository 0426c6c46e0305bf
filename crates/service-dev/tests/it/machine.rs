//! The development server under test, and what it says.

use std::{
    io::{BufRead as _, BufReader},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use service_testkit::ports;
use tempfile::TempDir;

const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A directory of data, in which PostgreSQL's account may work.
pub(crate) struct Data(TempDir);

impl Data {
    pub(crate) fn new() -> Result<Self> {
        let passable = std::fs::Permissions::from_mode(0o755);
        Ok(Self(tempfile::Builder::new().prefix("service-dev-").permissions(passable).tempdir()?))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("dev")
    }

    /// Returns the program with this directory and free ports.
    pub(crate) fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(binary());
        command.args(free_ports()?).arg("--directory").arg(self.path()).args(arguments);
        Ok(command)
    }

    /// Runs the program to its end, which has to come by itself.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Output> {
        Ok(self.command(arguments)?.stdin(Stdio::null()).output()?)
    }

    /// Starts the program, and waits for its line of JSON.
    pub(crate) fn start(&self, arguments: &[&str]) -> Result<Running> {
        let mut child =
            self.command(arguments)?.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().context("no standard output")?);
        let stderr = child.stderr.take().context("no standard error")?;
        let log = thread::spawn(move || read_all(stderr));
        let (said, says) = mpsc::channel();
        let rest = thread::spawn(move || {
            let mut line = String::new();
            drop(stdout.read_line(&mut line));
            drop(said.send(line));
            read_all(stdout)
        });
        let line = says.recv_timeout(START_TIMEOUT).context("it said nothing")?;
        let links = serde_json::from_str(&line).with_context(|| format!("not JSON: {line}"))?;
        Ok(Running { links, child, rest: Some(rest), log: Some(log) })
    }
}

/// A started development server, which is killed when dropped.
pub(crate) struct Running {
    pub(crate) links: Value,
    child: Child,
    rest: Option<thread::JoinHandle<String>>,
    log: Option<thread::JoinHandle<String>>,
}

impl Running {
    pub(crate) fn link(&self, name: &str) -> Result<&str> {
        self.links[name].as_str().with_context(|| format!("no {name} in {}", self.links))
    }

    /// Sends a signal, as Ctrl-C does with `INT`, and waits for the end. Returns the exit code and standard error.
    pub(crate) fn stop(mut self, signal: &str) -> Result<(Option<i32>, String)> {
        let sent = Command::new("kill").args([&format!("-{signal}"), &self.child.id().to_string()]).status()?;
        ensure!(sent.success(), "it could not be told to stop");
        let code = self.child.wait()?.code();
        let rest = self.rest.take().and_then(|rest| rest.join().ok()).context("standard output was not read")?;
        ensure!(rest.is_empty(), "it printed more than one line: {rest}");
        let log = self.log.take().and_then(|log| log.join().ok()).context("standard error was not read")?;
        Ok((code, log))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_service-dev"))
}

/// The options of the ports, with free ones.
pub(crate) fn free_ports() -> Result<Vec<String>> {
    let options = ["--port", "--mailbox-port", "--ops-port", "--database-port"];
    options.iter().map(|option| Ok(format!("{option}={}", ports::free()?))).collect()
}

pub(crate) fn is_free(address: &str) -> bool {
    TcpListener::bind(address).is_ok()
}

fn read_all(mut from: impl std::io::Read) -> String {
    let mut bytes = Vec::new();
    drop(from.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}
