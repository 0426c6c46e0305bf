//! Five processes share one pair of MCP tokens, on two nodes.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use service_testkit::process::Process;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

use crate::{
    machine::{Machine, run_processes, start_node},
    mcp_serve::StdioClient,
};

const PROCESSES: usize = 5;

/// Forwards connections to the nodes in turn, as a load balancer does. Returns how many each has got.
fn balance(listener: TcpListener, nodes: &[&Process]) -> Arc<[AtomicUsize; 2]> {
    let addresses: Vec<_> = nodes.iter().map(|node| node.http.url.trim_start_matches("http://").to_owned()).collect();
    let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let counted = counts.clone();
    tokio::spawn(async move {
        for turn in 0.. {
            let Ok((mut from, _)) = listener.accept().await else { return };
            let node = turn % addresses.len();
            counted[node].fetch_add(1, Ordering::Relaxed);
            let address = addresses[node].clone();
            tokio::spawn(async move {
                if let Ok(mut to) = TcpStream::connect(address).await {
                    drop(copy_bidirectional(&mut from, &mut to).await);
                }
            });
        }
    });
    counts
}

#[test]
fn five_processes_refresh_one_pair_at_once_on_two_nodes() -> Result<()> {
    run_processes(async |server| {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let base = [("base_url", url.as_str())];
        let nodes = [start_node(server, &base)?, start_node(server, &base)?];
        let counts = balance(listener, &[&nodes[0], &nodes[1]]);
        let machine = Machine::new(&url, &server.leaks)?;
        machine.log_in_for_mcp(&server.mailbox, "read").await?;
        let mut clients = (0..PROCESSES).map(|_| StdioClient::start(&machine)).collect::<Result<Vec<_>>>()?;
        for round in 1..=3 {
            let before = machine.mcp_refresh_token()?;
            machine.expire_mcp_token()?;
            let calls = clients.iter_mut().map(async |client| client.call(round, "whoami", json!({})).await);
            for answer in join_all(calls).await {
                let answer = answer?;
                ensure!(answer["result"]["structuredContent"]["user"].is_object(), "round {round}: {answer}");
            }
            machine.register_secrets();
            assert_ne!(machine.mcp_refresh_token()?, before, "round {round} has not refreshed");
        }
        // One lineage: a single MCP session, refreshed once in each round, and not revoked.
        let grants = "select string_agg(issued || ' ' || (revoked_at is null), ',') from grants
            where client_id = 'service-mcp'";
        assert_eq!(server.sql(grants).await?.as_deref(), Some("4 true"));
        let used = counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        ensure!(used.iter().all(|count| *count > 0), "a node was not used: {used:?}");
        for client in clients {
            assert_eq!(client.end().await?.2, Some(0));
        }
        nodes.into_iter().try_for_each(|mut node| node.terminate().map(drop)).context("a node did not stop")
    })
}

/// Runs futures at once, and returns their results in order.
async fn join_all<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut pinned: Vec<_> = futures.map(Box::pin).collect();
    let mut results: Vec<Option<T>> = pinned.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, result) in pinned.iter_mut().zip(&mut results) {
            if result.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                *result = Some(value);
            }
        }
        if results.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    results.into_iter().flatten().collect()
}
