//! The command on a real terminal: `script` gives it one, and a test types and reads.

use std::{process::Stdio, time::Duration};

use anyhow::{Context as _, Result, bail};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::machine::{Machine, binary};

const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const CTRL_C: &str = "\x03";

pub(crate) struct Pty {
    child: Child,
    keyboard: ChildStdin,
    screen: ChildStdout,
    seen: Vec<u8>,
    /// Up to where something was expected already.
    read: usize,
}

impl Pty {
    /// `arguments` as a shell reads them, redirections too.
    pub(crate) fn start(machine: &Machine, arguments: &str, environment: &[(&str, &str)]) -> Result<Self> {
        let mut child = Command::new("script")
            .args(["-qefc", &format!("{} {arguments}", binary().display()), "/dev/null"])
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

    /// Waits until the text appears behind what was expected before; what came up to its end.
    pub(crate) async fn expect(&mut self, text: &str) -> Result<String> {
        loop {
            let new = String::from_utf8_lossy(&self.seen[self.read..]).into_owned();
            if let Some(at) = new.find(text) {
                self.read += at + text.len();
                return Ok(new[..at + text.len()].to_owned());
            }
            if !self.more().await? {
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

    /// Waits for its end: all that the screen showed, and the exit code.
    pub(crate) async fn end(mut self) -> Result<(String, Option<i32>)> {
        while self.more().await? {}
        let code = timeout(PATIENCE, self.child.wait()).await??.code();
        Ok((String::from_utf8_lossy(&self.seen).replace("\r\n", "\n"), code))
    }

    async fn more(&mut self) -> Result<bool> {
        let mut bytes = [0; 4096];
        let read = timeout(PATIENCE, self.screen.read(&mut bytes)).await;
        let count = read.with_context(|| format!("nothing more after: {}", String::from_utf8_lossy(&self.seen)))??;
        self.seen.extend_from_slice(&bytes[..count]);
        Ok(count > 0)
    }
}
