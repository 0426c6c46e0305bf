//! A closed loop of requests over keep-alive connections, cheap enough not to affect the measurement.

use std::{
    net::SocketAddr,
    ops::Range,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};

/// The result of a run.
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

/// Sends what `request` returns (by connection and number) over `connections` connections for `duration`.
pub async fn run<F>(address: SocketAddr, connections: u64, duration: Duration, request: F) -> Result<Seen>
where
    F: Fn(u64, u64) -> Vec<u8> + Send + Sync + Clone + 'static,
{
    let conversation = |connection| {
        let (request, mut number) = (request.clone(), 0);
        move |_: &str| {
            number += 1;
            request(connection, number - 1)
        }
    };
    converse(address, (0..connections).map(conversation).collect(), duration).await
}

/// Sends what `request` returns (by connection and number), `times` times over each of `connections` connections. Another status than
/// `expected` is a failure.
pub async fn run_times<F>(address: SocketAddr, connections: u64, times: u64, expected: u16, request: F) -> Result<Seen>
where
    F: Fn(u64, u64) -> Vec<u8> + Send + Sync + Clone + 'static,
{
    let began = Instant::now();
    let mut loops = JoinSet::new();
    for connection in 0..connections {
        let request = request.clone();
        loops.spawn(async move {
            let mut stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let (mut buffer, mut failures) = (vec![0; 64 * 1024], 0);
            for number in 0..times {
                stream.write_all(&request(connection, number)).await?;
                let (status, _) = read_answer(&mut stream, &mut buffer).await?;
                failures += u64::from(status != expected);
            }
            anyhow::Ok(failures)
        });
    }
    let mut seen = Seen { requests: connections * times, ..Seen::default() };
    while let Some(ended) = loops.join_next().await {
        seen.failures += ended??;
    }
    seen.seconds = began.elapsed().as_secs_f64();
    Ok(seen)
}

/// Runs each conversation over a connection of its own for `duration`. A conversation builds each request from the
/// previous response body, which is empty at first.
pub async fn converse<C>(address: SocketAddr, conversations: Vec<C>, duration: Duration) -> Result<Seen>
where
    C: FnMut(&str) -> Vec<u8> + Send + 'static,
{
    let began = Instant::now();
    let mut loops = JoinSet::new();
    for conversation in conversations {
        loops.spawn(one_connection(address, began + duration, conversation));
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

/// Sends what `request` returns at this rate, however long the responses take. Returns the time of each request in milliseconds, from
/// the moment at which it was due.
pub async fn at_rate<F>(address: SocketAddr, connections: u64, pace: Pace, request: F) -> Result<Vec<f64>>
where
    F: Fn(u64, u64) -> Vec<u8> + Send + Sync + Clone + 'static,
{
    let between = Duration::from_secs_f64(1.0 / pace.per_second);
    let began = tokio::time::Instant::now();
    let mut loops = JoinSet::new();
    for connection in 0..connections {
        let (request, first) = (request.clone(), began + between * u32::try_from(connection)?);
        let mut ticks = tokio::time::interval_at(first, between * u32::try_from(connections)?);
        loops.spawn(async move {
            let mut stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let (mut buffer, mut times) = (vec![0; 64 * 1024], Vec::new());
            for number in 0.. {
                let due = ticks.tick().await;
                if due >= began + pace.duration {
                    break;
                }
                stream.write_all(&request(connection, number)).await?;
                let (status, _) = read_answer(&mut stream, &mut buffer).await?;
                ensure!(is_success(status), "a request failed");
                times.push(due.elapsed().as_secs_f64() * 1_000.0);
            }
            Ok(times)
        });
    }
    let mut times = Vec::new();
    while let Some(ended) = loops.join_next().await {
        times.extend(ended??);
    }
    Ok(times)
}

/// How often requests are sent, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub per_second: f64,
    pub duration: Duration,
}

async fn one_connection<C>(address: SocketAddr, until: Instant, mut next: C) -> Result<(u64, u64)>
where
    C: FnMut(&str) -> Vec<u8>,
{
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 256 * 1024];
    let (mut requests, mut failures, mut body) = (0, 0, 0..0);
    while Instant::now() < until {
        let request = next(std::str::from_utf8(&buffer[body])?);
        stream.write_all(&request).await?;
        let status;
        (status, body) = read_answer(&mut stream, &mut buffer).await?;
        requests += 1;
        failures += u64::from(!is_success(status));
    }
    Ok((requests, failures))
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

/// Reads one response with a `Content-Length`, or a 204. Returns its status, and where its body is.
async fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) -> Result<(u16, Range<usize>)> {
    let mut filled = 0;
    loop {
        let read = stream.read(&mut buffer[filled..]).await?;
        ensure!(read > 0, "the server closed the connection");
        filled += read;
        let Some(head) = memchr::memmem::find(&buffer[..filled], b"\r\n\r\n") else { continue };
        let text = std::str::from_utf8(&buffer[..head])?;
        let length = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        let status = text.get(9..12).context("the answer has no status")?.parse()?;
        let whole = head + 4 + length.or((status == 204).then_some(0)).context("the answer has no length")?;
        ensure!(whole <= buffer.len(), "the answer is too long");
        if filled >= whole {
            return Ok((status, head + 4..whole));
        }
    }
}
