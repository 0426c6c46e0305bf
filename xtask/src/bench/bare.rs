//! The bare handler: the same headers and bytes without the service.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};
use axum::{
    http::{HeaderMap, header},
    routing::get,
    serve::ListenerExt as _,
};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::say;

/// What the bare handler sends.
#[derive(Serialize, Deserialize)]
struct Sent {
    headers: Vec<(String, String)>,
    body: String,
}

/// Serves what a file says at `/v1/whoami`, and its body as the result of an MCP tool at `/mcp`. Prints the address.
pub(super) async fn serve(file: &Path) -> Result<()> {
    let sent: Sent = serde_json::from_slice(&std::fs::read(file)?)?;
    let mcp = super::mcp::bare(serde_json::from_str(&sent.body).unwrap_or_default());
    let headers = sent.headers.iter().map(|(name, value)| Ok((name.parse()?, value.parse()?)));
    let headers: HeaderMap = headers.collect::<Result<_>>()?;
    let bytes: &'static [u8] = sent.body.into_bytes().leak();
    let handler = get(async move || (headers, bytes));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    say(&listener.local_addr()?.to_string());
    axum::serve(listener.tap_io(|stream| drop(stream.set_nodelay(true))), mcp.route("/v1/whoami", handler)).await?;
    Ok(())
}

/// The process of the bare handler, which is killed when dropped.
pub(crate) struct Bare {
    pub(crate) address: SocketAddr,
    child: Child,
}

impl Bare {
    /// Sends the same headers as a response of ours, but for those that every server sets by itself.
    pub(crate) fn start(headers: &HeaderMap, body: &str) -> Result<Self> {
        let own = [header::DATE, header::CONTENT_LENGTH];
        let headers = headers.iter().filter(|(name, _)| !own.contains(name));
        let headers = headers.map(|(name, value)| Ok((name.to_string(), value.to_str()?.to_owned())));
        let sent = Sent { headers: headers.collect::<Result<_>>()?, body: body.to_owned() };
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), serde_json::to_vec(&sent)?)?;
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

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
