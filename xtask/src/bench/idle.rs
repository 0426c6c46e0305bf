//! The memory that connections take which are kept open and idle.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Result, ensure};
use serde_json::json;
use service_testkit::process::Process;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{Bench, whoami};
use crate::{memory, say};

const CONNECTIONS: usize = 10_000;
/// How many connections are opened in a second.
const PER_SECOND: u32 = 1_000;
/// How long connections have been idle when memory is read.
const SETTLED: Duration = Duration::from_secs(5);
/// The most memory of a node with this many connections.
const MAX_MEGABYTES: f64 = 100.0;

pub(super) async fn measure(bench: &Bench, json: bool) -> Result<()> {
    let count = if bench.quick { 200 } else { CONNECTIONS };
    let token = whoami::sign_in(bench, "idle@acme.test", "read").await?;
    let mut settings = bench.settings.clone();
    settings.set("http.connections", &(CONNECTIONS + 100).to_string());
    let server = Process::start(&bench.binary, &settings, &bench.leaks)?;
    let address: SocketAddr = server.http.url.trim_start_matches("http://").parse()?;
    let request = format!("GET /v1/whoami HTTP/1.1\r\nHost: service.test\r\nAuthorization: Bearer {token}\r\n\r\n");
    let before = megabytes(&server)?;
    let (mut kept, mut buffer) = (Vec::with_capacity(count), vec![0; 8 * 1024]);
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / PER_SECOND);
    for _ in 0..count {
        ticks.tick().await;
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let read = stream.read(&mut buffer).await?;
        ensure!(buffer[..read].starts_with(b"HTTP/1.1 200"), "a connection was not served");
        kept.push(stream);
    }
    // A connection releases most of its memory when it has been idle for a second.
    tokio::time::sleep(SETTLED).await;
    let after = megabytes(&server)?;
    for stream in &mut kept {
        stream.write_all(request.as_bytes()).await?;
        let read = stream.read(&mut buffer).await?;
        ensure!(buffer[..read].starts_with(b"HTTP/1.1 200"), "an idle connection was not served");
    }
    drop(kept);
    if json {
        say(&json!({ "name": "idle_connections", "connections": count, "before_mb": before, "mb": after }).to_string());
    } else {
        say(&format!("{:24} {count} connections: {after:.1} MB, and {before:.1} MB without", "idle_connections"));
    }
    ensure!(after <= MAX_MEGABYTES, "a node with {count} idle connections takes {after:.1} MB");
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "memory has fewer bytes than that")]
pub(super) fn megabytes(server: &Process) -> Result<f64> {
    Ok(memory::kilobytes(server.pid(), "VmRSS")? as f64 / 1024.0)
}
