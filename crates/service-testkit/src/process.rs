//! The real server as a process of its own: what a test needs to kill it, to run three, and to read what it logs.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use service_server::config::environment_name;

use crate::{answer::Door, leaks::Leaks, settings::Settings};

const PATIENCE: Duration = Duration::from_secs(30);

/// A running `serviced`; killed when dropped.
pub struct Process {
    pub door: Door,
    pub ops: Door,
    child: Child,
    log: Arc<Mutex<Vec<u8>>>,
}

impl Process {
    /// Starts `binary run` and waits until it is ready.
    pub fn start(binary: &Path, settings: &Settings, leaks: &Leaks) -> Result<Self> {
        let mut child = command(binary, settings, "run").stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?;
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
        let Ok((address, ops_address)) = is_ready.recv_timeout(PATIENCE) else {
            drop(child.kill());
            bail!(
                "the server did not start:\n{}",
                String::from_utf8_lossy(&log.lock().unwrap_or_else(PoisonError::into_inner))
            );
        };
        let door = |address: &str| Door::new(format!("http://{address}"), leaks.clone());
        Ok(Self { door: door(&address)?, ops: door(&ops_address)?, child, log })
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks it to stop, and returns its exit code.
    pub fn terminate(&mut self) -> Result<Option<i32>> {
        let asked = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        anyhow::ensure!(asked.success(), "the server could not be asked to stop");
        Ok(self.child.wait()?.code())
    }

    /// Everything it has logged so far.
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

/// The command with these settings in its environment and nothing of ours.
#[must_use]
pub fn command(binary: &Path, settings: &Settings, subcommand: &str) -> Command {
    let mut command = Command::new(binary);
    command.args(subcommand.split(' ')).env_clear();
    for (key, value) in settings.iter() {
        command.env(environment_name(key), value);
    }
    command
}

/// Where the server says that it listens, in the line that says that it is ready.
fn addresses(line: &str) -> Option<(String, String)> {
    let event: Value = serde_json::from_str(line).ok()?;
    if event["message"] != "Ready" {
        return None;
    }
    Some((event["address"].as_str()?.to_owned(), event["ops_address"].as_str()?.to_owned()))
}
