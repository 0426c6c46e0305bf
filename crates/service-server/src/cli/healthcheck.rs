//! `serviced healthcheck`: asks the node of this machine whether it is ready, for containers without other programs.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use anyhow::Context as _;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{
    Request, StatusCode,
    body::Bytes,
    client::conn::http1,
    header::{CONNECTION, HOST},
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::cli::output::say;

const TIMEOUT: Duration = Duration::from_secs(5);
const MAX_ANSWER_BYTES: usize = 1_024;

/// Fails if `/readyz` of the internal listener is not 200.
pub(crate) async fn run(listener: SocketAddr) -> anyhow::Result<()> {
    let address = reachable(listener);
    let asked = tokio::time::timeout(TIMEOUT, ask(address)).await;
    let (status, answer) = asked.with_context(|| format!("{address} did not answer in time"))??;
    anyhow::ensure!(status == StatusCode::OK, "{}", answer.trim());
    say(answer.trim());
    Ok(())
}

/// A listener on all addresses is asked at loopback.
fn reachable(listener: SocketAddr) -> SocketAddr {
    let ip = match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listener.port())
}

async fn ask(address: SocketAddr) -> anyhow::Result<(StatusCode, String)> {
    let stream =
        TcpStream::connect(address).await.with_context(|| format!("cannot connect to http.ops_listen at {address}"))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get("/readyz").header(HOST, address.to_string()).header(CONNECTION, "close");
    let response = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
    let body = body.map_err(|_| anyhow::anyhow!("{address} is not the internal listener of serviced"))?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}
