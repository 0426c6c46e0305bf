//! The real server as a process, for tests that kill it, run several, or read its log.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use service_server::config::environment_name;

use crate::{leaks::Leaks, response::TestClient, settings::Settings};

const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A running `serviced`, which is killed when dropped.
pub struct Process {
    pub http: TestClient,
    pub ops: TestClient,
    child: Child,
    log: Arc<Mutex<Vec<u8>>>,
}

impl Process {
    /// Starts `binary run` and waits until it is ready.
    pub fn start(binary: &Path, settings: &Settings, leaks: &Leaks) -> Result<Self> {
        Self::wait_until_ready(command(binary, settings, "run"), leaks)
    }

    /// Starts `binary run` with the limits that `ulimit` sets for these arguments, and waits until it is ready.
    pub fn start_with_ulimit(ulimit: &str, binary: &Path, settings: &Settings, leaks: &Leaks) -> Result<Self> {
        let mut limited = Command::new("/bin/sh");
        let script = format!("ulimit {ulimit} && exec \"$0\" run");
        limited.args(["-c", &script]).arg(binary);
        set_environment(&mut limited, settings);
        Self::wait_until_ready(limited, leaks)
    }

    /// Starts a command that runs the server, and waits until it is ready.
    pub fn wait_until_ready(mut command: Command, leaks: &Leaks) -> Result<Self> {
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let stderr = child.stderr.take().context("the server has no standard error")?;
        let log = Arc::<Mutex<Vec<u8>>>::default();
        let (ready, is_ready) = mpsc::channel();
        thread::spawn({
            let log = log.clone();
            move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    if let Some(addresses) = addresses(&line) {
                        drop(ready.send(addresses));
                    }
                    log.lock().unwrap_or_else(PoisonError::into_inner).extend(format!("{line}\n").into_bytes());
                }
            }
        });
        let Ok((address, ops_address)) = is_ready.recv_timeout(START_TIMEOUT) else {
            drop(child.kill());
            bail!(
                "the server did not start:\n{}",
                String::from_utf8_lossy(&log.lock().unwrap_or_else(PoisonError::into_inner))
            );
        };
        let http = |address: &str| TestClient::new(format!("http://{address}"), leaks.clone());
        Ok(Self { http: http(&address)?, ops: http(&ops_address)?, child, log })
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, as a crash would.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Waits until it has exited.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        Ok(self.child.wait()?)
    }

    /// Sends SIGTERM, and returns the exit code.
    pub fn terminate(&mut self) -> Result<Option<i32>> {
        let asked = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        anyhow::ensure!(asked.success(), "the server could not be asked to stop");
        Ok(self.child.wait()?.code())
    }

    /// Returns its log so far.
    #[must_use]
    pub fn log(&self) -> Vec<u8> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.kill());
    }
}

/// Returns the command with these settings as its only environment.
#[must_use]
pub fn command(binary: &Path, settings: &Settings, subcommand: &str) -> Command {
    let mut command = Command::new(binary);
    command.args(subcommand.split(' '));
    set_environment(&mut command, settings);
    command
}

fn set_environment(command: &mut Command, settings: &Settings) {
    command.env_clear();
    for (key, value) in settings.iter() {
        command.env(environment_name(key), value);
    }
}

/// Parses the addresses in the log line that reports readiness.
fn addresses(line: &str) -> Option<(String, String)> {
    let event: Value = serde_json::from_str(line).ok()?;
    if event["message"] != "Ready" {
        return None;
    }
    Some((event["address"].as_str()?.to_owned(), event["ops_address"].as_str()?.to_owned()))
}
