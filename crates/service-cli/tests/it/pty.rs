//! Runs the command on a pseudoterminal, which `script` provides.

use std::{process::Stdio, time::Duration};

use anyhow::{Context as _, Result, bail};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::machine::{Machine, binary};

const READ_TIMEOUT: Duration = Duration::from_secs(20);
pub(crate) const CTRL_C: &str = "\x03";

pub(crate) struct Pty {
    child: Child,
    keyboard: ChildStdin,
    screen: ChildStdout,
    seen: Vec<u8>,
    /// The length of the output that `expect` has consumed.
    read: usize,
}

impl Pty {
    /// Starts the command. A shell parses `arguments`, so that they can contain redirections.
    pub(crate) fn start(machine: &Machine, arguments: &str, environment: &[(&str, &str)]) -> Result<Self> {
        Self::start_line(machine, &format!("{} {arguments}", binary().display()), environment)
    }

    /// Starts a line of a shell.
    pub(crate) fn start_line(machine: &Machine, line: &str, environment: &[(&str, &str)]) -> Result<Self> {
        let mut child = Command::new("script")
            .args(["-qefc", line, "/dev/null"])
            .env_clear()
            .envs(machine.variables())
            .envs(environment.iter().copied())
            .current_dir(machine.home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("there is no `script`; Debian has it in bsdutils")?;
        let keyboard = child.stdin.take().context("no keyboard")?;
        let screen = child.stdout.take().context("no screen")?;
        Ok(Self { child, keyboard, screen, seen: Vec::new(), read: 0 })
    }

    /// Waits until `text` appears after what earlier calls expected. Returns the output up to its end.
    pub(crate) async fn expect(&mut self, text: &str) -> Result<String> {
        loop {
            let new = String::from_utf8_lossy(&self.seen[self.read..]).into_owned();
            if let Some(at) = new.find(text) {
                self.read += at + text.len();
                return Ok(new[..at + text.len()].to_owned());
            }
            if !self.read_more().await? {
                bail!("it ended before {text:?}: {new}");
            }
        }
    }

    pub(crate) async fn line(&mut self, text: &str) -> Result<()> {
        self.press(&format!("{text}\n")).await
    }

    pub(crate) async fn press(&mut self, keys: &str) -> Result<()> {
        self.keyboard.write_all(keys.as_bytes()).await?;
        Ok(self.keyboard.flush().await?)
    }

    /// Waits until the command exits. Returns its whole output and its exit code.
    pub(crate) async fn end(mut self) -> Result<(String, Option<i32>)> {
        while self.read_more().await? {}
        let code = timeout(READ_TIMEOUT, self.child.wait()).await??.code();
        Ok((String::from_utf8_lossy(&self.seen).replace("\r\n", "\n"), code))
    }

    async fn read_more(&mut self) -> Result<bool> {
        let mut bytes = [0; 4096];
        let read = timeout(READ_TIMEOUT, self.screen.read(&mut bytes)).await;
        let count = read.with_context(|| format!("nothing more after: {}", String::from_utf8_lossy(&self.seen)))??;
        self.seen.extend_from_slice(&bytes[..count]);
        Ok(count > 0)
    }
}
