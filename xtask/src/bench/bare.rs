//! The bare handler: the same bytes without the service.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};
use axum::{http::header, routing::get, serve::ListenerExt as _};
use tokio::net::TcpListener;

use crate::say;

/// Serves the bytes of a file at `/v1/whoami`, and as the result of an MCP tool at `/mcp`. Prints the address.
pub(super) async fn serve(file: &Path) -> Result<()> {
    let bytes: &'static [u8] = std::fs::read(file)?.leak();
    let mcp = super::mcp::bare(serde_json::from_slice(bytes).unwrap_or_default());
    let handler = get(async move || ([(header::CONTENT_TYPE, "application/json")], bytes));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    say(&listener.local_addr()?.to_string());
    axum::serve(listener.tap_io(|stream| drop(stream.set_nodelay(true))), mcp.route("/v1/whoami", handler)).await?;
    Ok(())
}

/// The process of the bare handler, which is killed when dropped.
pub(super) struct Bare {
    pub(super) address: SocketAddr,
    child: Child,
}

impl Bare {
    pub(super) fn start(bytes: &str) -> Result<Self> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), bytes)?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["bench", "--bare"])
            .arg(file.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        Ok(Self { address: line.trim().parse()?, child })
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
