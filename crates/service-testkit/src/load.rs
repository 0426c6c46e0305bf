//! A closed loop of requests over kept-alive connections, cheap enough not to be what is measured.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};

/// What a run of the loop saw.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub requests: u64,
    pub failures: u64,
    pub seconds: f64,
}

impl Seen {
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "there are not that many requests")]
    pub fn per_second(&self) -> f64 {
        self.requests as f64 / self.seconds
    }
}

/// Sends what `request` makes (by connection and number) over `connections` connections for `duration`.
pub async fn run<F>(address: SocketAddr, connections: u64, duration: Duration, request: F) -> Result<Seen>
where
    F: Fn(u64, u64) -> Vec<u8> + Send + Sync + Clone + 'static,
{
    let began = Instant::now();
    let mut loops = JoinSet::new();
    for number in 0..connections {
        loops.spawn(one_connection(address, began + duration, number, request.clone()));
    }
    let mut seen = Seen::default();
    while let Some(ended) = loops.join_next().await {
        let (requests, failures) = ended??;
        seen.requests += requests;
        seen.failures += failures;
    }
    seen.seconds = began.elapsed().as_secs_f64();
    Ok(seen)
}

async fn one_connection<F>(address: SocketAddr, until: Instant, number: u64, request: F) -> Result<(u64, u64)>
where
    F: Fn(u64, u64) -> Vec<u8>,
{
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 16 * 1024];
    let (mut requests, mut failures) = (0, 0);
    while Instant::now() < until {
        stream.write_all(&request(number, requests)).await?;
        let success = read_answer(&mut stream, &mut buffer).await?;
        requests += 1;
        failures += u64::from(!success);
    }
    Ok((requests, failures))
}

/// Reads one answer with a `Content-Length`; whether its status begins with 2.
async fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) -> Result<bool> {
    let mut filled = 0;
    loop {
        let read = stream.read(&mut buffer[filled..]).await?;
        ensure!(read > 0, "the server closed the connection");
        filled += read;
        let Some(head) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let text = std::str::from_utf8(&buffer[..head])?;
        let length = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        let whole = head + 4 + length.context("the answer has no length")?;
        if filled >= whole {
            return Ok(text.as_bytes().get(9) == Some(&b'2'));
        }
    }
}
