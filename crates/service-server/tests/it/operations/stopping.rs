//! How a node leaves: load balancers and proxies notice first, and no request is broken.

use std::{
    path::Path,
    process::{Command, ExitStatus},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use service_testkit::{
    process::Process,
    server::{Setup, TestServer},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

const SOON: Duration = Duration::from_secs(10);
const PATH: &str = "/.well-known/jwks.json";

fn run(test: impl AsyncFnOnce(&TestServer) -> Result<()>) -> Result<()> {
    Setup::default().on_system_clock().run(test)
}

fn node(server: &TestServer, lame_duck_seconds: &str) -> Result<Process> {
    let mut settings = server.settings.clone();
    settings.set("http.lame_duck_seconds", lame_duck_seconds);
    Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), &settings, &server.leaks)
}

fn tell(pid: u32, signal: &str) -> Result<()> {
    ensure!(Command::new("kill").args([signal, &pid.to_string()]).status()?.success());
    Ok(())
}

/// Waits until `/readyz` says that the node is stopping.
async fn until_leaving(node: &Process) -> Result<()> {
    let began = Instant::now();
    loop {
        let response = node.ops.get("/readyz", None).await?;
        if response.status == 503 {
            ensure!(response.text.contains("stopping"), "{}", response.text);
            return Ok(());
        }
        ensure!(began.elapsed() < SOON, "the node stays ready");
    }
}

async fn ended(mut node: Process) -> Result<ExitStatus> {
    timeout(SOON, tokio::task::spawn_blocking(move || node.wait())).await.context("it goes on")??
}

async fn open(node: &Process) -> Result<TcpStream> {
    Ok(TcpStream::connect(node.http.url.trim_start_matches("http://")).await?)
}

/// Sends a request that leaves the connection open, and returns its response's head and body.
async fn ask(stream: &mut TcpStream) -> Result<String> {
    stream.write_all(format!("GET {PATH} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await?;
    let mut response = vec![0; 64 * 1024];
    let read = timeout(SOON, stream.read(&mut response)).await??;
    Ok(String::from_utf8_lossy(&response[..read]).into_owned())
}

#[test]
fn a_node_that_is_told_to_stop_serves_on_until_load_balancers_have_noticed_op_02() -> Result<()> {
    run(async |server| {
        let node = node(server, "600")?;
        let mut kept = open(&node).await?;
        let before = ask(&mut kept).await?;
        ensure!(before.starts_with("HTTP/1.1 200 ") && !before.contains("connection: close"), "{before}");
        tell(node.pid(), "-TERM")?;
        until_leaving(&node).await?;
        // New connections are served, and one that was kept open is closed with its response and not before.
        for stream in [&mut kept, &mut open(&node).await?] {
            let response = ask(stream).await?;
            ensure!(response.starts_with("HTTP/1.1 200 ") && response.contains("connection: close\r\n"), "{response}");
            assert_eq!(timeout(SOON, stream.read(&mut [0])).await??, 0, "the connection stays open");
        }
        assert_eq!(node.ops.get("/healthz", None).await?.status, 200);
        // What keeps tokens accepted goes on.
        server.request_code("ann@acme.test").await?;
        assert_eq!(node.http.get("/v1/whoami", None).await?.status, 401);
        let told_again = Instant::now();
        tell(node.pid(), "-INT")?;
        assert_eq!(ended(node).await?.code(), Some(1));
        ensure!(told_again.elapsed() < Duration::from_secs(2), "it took {:?}", told_again.elapsed());
        Ok(())
    })
}

#[test]
fn no_request_is_broken_while_a_node_stops_op_02() -> Result<()> {
    run(async |server| {
        let node = node(server, "1")?;
        let (pid, told) = (node.pid(), Instant::now());
        let mut kept = open(&node).await?;
        tell(pid, "-TERM")?;
        let mut served = 0;
        // As a proxy does: a connection is used again unless it was closed, and a refused one is not an error. Nor is one that
        // was made in the very moment in which the listener closes.
        let mut is_new = false;
        loop {
            let response = match ask(&mut kept).await {
                Ok(response) => response,
                Err(_) if is_new && told.elapsed() >= Duration::from_secs(1) => break,
                Err(error) => return Err(error.context("a request on an open connection was broken")),
            };
            is_new = response.contains("connection: close\r\n");
            ensure!(response.starts_with("HTTP/1.1 200 "), "{response}");
            served += 1;
            if is_new {
                match open(&node).await {
                    Ok(stream) => kept = stream,
                    Err(_) => break,
                }
            }
        }
        ensure!(told.elapsed() >= Duration::from_secs(1), "the listener closed after {:?}", told.elapsed());
        ensure!(served > 10, "only {served} requests");
        assert_eq!(ended(node).await?.code(), Some(0));
        Ok(())
    })
}
