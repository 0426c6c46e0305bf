//! Many calls, large results, and clients that stop reading: a node stays small, and others notice nothing.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use serde_json::{Value, json};
use service_testkit::{
    process::Process,
    server::{Setup, SignedIn, TestServer, with_server},
};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use crate::support::{
    contents::make,
    mcp::{call, token},
};

/// Contents of this size fill ten megabytes.
const MANY: usize = 170;
const CALLS: usize = 1_000;
const SILENT_CLIENTS: usize = 40;

/// Writes packs of the largest size that is allowed, until they are 10 MB.
async fn fill(server: &TestServer, user: &SignedIn, letter: &str, times: usize) -> Result<()> {
    for number in 0..MANY {
        let text = letter.repeat(times);
        make(server, "/v1/packs", user, &json!({ "name": format!("Pack {number}"), "type": "context", "text": text }))
            .await?;
    }
    Ok(())
}

/// Reads a list page by page; the number of contents, of pages, and of bytes.
async fn read_all(server: &TestServer, token: &str, tool: &str, arguments: &Value) -> Result<[usize; 3]> {
    let (mut arguments, mut ids, mut pages, mut bytes) = (arguments.clone(), Vec::new(), 0, 0);
    loop {
        let page = call(server, token, tool, &arguments).await?;
        ensure!(page.status == 200 && page.body["result"]["isError"] == false, "{}", page.text);
        assert!(page.text.len() <= 1_000_000, "a page of {} bytes", page.text.len());
        let result = &page.body["result"]["structuredContent"];
        let data = result["data"].as_array().context("no data")?;
        ids.extend(data.iter().map(|content| content["id"].to_string()));
        (pages, bytes) = (pages + 1, bytes + page.text.len());
        match result["nextCursor"].as_str() {
            Some(cursor) => arguments["cursor"] = json!(cursor),
            None => break,
        }
    }
    ids.sort();
    ids.dedup();
    Ok([ids.len(), pages, bytes])
}

#[test]
fn ten_megabytes_are_read_in_pages_of_a_megabyte_at_most() -> Result<()> {
    // Letters of three bytes, and those that JSON escapes in JSON again.
    for (letter, times) in [("€", 20_000), ("\"", 20_000), ("\u{1}", 9_000)] {
        let setup =
            Setup::default().set("limits.writes_per_user", "100000+100000").set("http.body_limit_bytes", "131072");
        setup.run(async |server| {
            let ann = server.sign_in("ann@acme.test", "read write").await?;
            fill(server, &ann, letter, times).await?;
            let token = token(server, &ann, "read").await?;
            let [contents, pages, bytes] = read_all(server, &token, "list_packs", &json!({ "limit": 100 })).await?;
            println!("{letter:?}: {contents} packs, {bytes} bytes in {pages} pages");
            assert_eq!(contents, MANY, "something was cut");
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn search_results_are_paged_and_never_cut_in_silence() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        for number in 0..30 {
            let pack = json!({ "name": format!("Harbour {number}"), "type": "context", "text": "€".repeat(20_000) });
            make(server, "/v1/packs", &ann, &pack).await?;
        }
        let token = token(server, &ann, "read").await?;
        let query = json!({ "type": "context", "query": "harbour", "limit": 100 });
        let [contents, pages, _] = read_all(server, &token, "search_packs", &query).await?;
        assert!(contents == 30 && pages > 1, "{contents} in {pages}");
        Ok(())
    })
}

/// The largest resident size that a process has had, in megabytes.
fn peak_megabytes(node: &Process) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? / 1_024)
}

fn start(server: &TestServer) -> Result<Process> {
    Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), &server.settings, &server.leaks)
}

fn body(tool: &str, arguments: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool, "arguments": arguments } })
        .to_string()
}

/// The bytes of a call, as a client sends them.
fn raw(token: &str, body: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Asks the API as another user, until `others` are done: how often, and the slowest response.
async fn meanwhile(
    node: &Process,
    user: &SignedIn,
    others: impl Future<Output = Result<()>>,
) -> Result<(usize, Duration)> {
    let (mut asked, mut slowest) = (0, Duration::ZERO);
    let mut others = Box::pin(others);
    loop {
        let began = Instant::now();
        let asking = node.http.get("/v1/whoami", Some(&user.access_token));
        let response = asking.await?;
        ensure!(response.status == 200, "another user got {}: {}", response.status, response.text);
        (asked, slowest) = (asked + 1, slowest.max(began.elapsed()));
        match futures_util::future::select(&mut others, std::future::ready(())).await {
            futures_util::future::Either::Left((done, _)) => {
                done?;
                return Ok((asked, slowest));
            }
            futures_util::future::Either::Right(_) => {}
        }
    }
}

#[test]
fn a_thousand_calls_at_once_cost_little_memory_and_others_nothing() -> Result<()> {
    let setup = Setup::default()
        .on_system_clock()
        .set("limits.requests_per_user", "100000+100000")
        // All calls fit into the node: what is measured is their memory, and the delay of others.
        .set("http.in_flight", "2000")
        // All clients of this test have one address.
        .set("limits.raised_networks", "127.0.0.0/8=100");
    setup.run(async |server| {
        let node = start(server)?;
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read").await?;
        let token = token(server, &ann, "read").await?;
        // The node has seen both users before.
        for user in [&ann, &bob] {
            ensure!(node.http.get("/v1/whoami", Some(&user.access_token)).await?.status == 200, "no whoami");
        }
        let before = peak_megabytes(&node)?;
        let calls = try_join_all((0..CALLS).map(async |_| {
            let request = node.http.request(reqwest::Method::POST, "/mcp").bearer_auth(&token);
            let request = request.header("accept", "application/json, text/event-stream");
            let sent = request.header("content-type", "application/json").body(body("whoami", &json!({})));
            let response = node.http.send(sent).await?;
            // A node that is full says so, and is not counted as a success.
            ensure!(matches!(response.status.as_u16(), 200 | 503), "{}: {}", response.status, response.text);
            anyhow::Ok(usize::from(response.status == 200))
        }));
        let succeeded = std::sync::atomic::AtomicUsize::new(0);
        let calls = async {
            succeeded.store(calls.await?.into_iter().sum(), std::sync::atomic::Ordering::Relaxed);
            Ok(())
        };
        let (asked, slowest) = meanwhile(&node, &bob, calls).await?;
        let (succeeded, grown) = (succeeded.into_inner(), peak_megabytes(&node)? - before);
        println!(
            "{succeeded} of {CALLS} calls, {grown} MB more; another user asked {asked} times, slowest {slowest:?}"
        );
        assert!(grown <= 200, "{grown} MB");
        assert!(succeeded >= CALLS / 2, "{succeeded}");
        Ok(())
    })
}

#[test]
fn clients_that_stop_reading_and_connections_that_are_cut_hold_nothing() -> Result<()> {
    let setup = Setup::default().on_system_clock().set("limits.writes_per_user", "100000+100000");
    setup.run(async |server| {
        let node = start(server)?;
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read").await?;
        for number in 0..10 {
            let pack = json!({ "name": format!("Pack {number}"), "type": "context", "text": "€".repeat(20_000) });
            make(server, "/v1/packs", &ann, &pack).await?;
        }
        let token = token(server, &ann, "read").await?;
        let before = peak_megabytes(&node)?;
        let address = node.http.url.trim_start_matches("http://").to_owned();
        let whole = raw(&token, &body("list_packs", &json!({ "limit": 100 })));
        let others = async {
            let mut silent = Vec::new();
            for number in 0..SILENT_CLIENTS {
                let mut stream = TcpStream::connect(&address).await?;
                stream.write_all(whole.as_bytes()).await?;
                silent.push(stream);
                // Others are cut: in the middle of the message, and right after it.
                let mut cut = TcpStream::connect(&address).await?;
                let sent = if number % 2 == 0 { &whole[..whole.len() - 20] } else { &whole };
                cut.write_all(sent.as_bytes()).await?;
            }
            Ok(())
        };
        let (asked, slowest) = meanwhile(&node, &bob, others).await?;
        let mut served = 0;
        while served < 20 {
            let response = node.http.get("/v1/whoami", Some(&bob.access_token)).await?;
            ensure!(response.status == 200, "{}", response.text);
            served += 1;
        }
        let grown = peak_megabytes(&node)? - before;
        println!(
            "{SILENT_CLIENTS} silent clients, {grown} MB more; another user asked {asked} times, slowest {slowest:?}"
        );
        assert!(grown <= 100, "{grown} MB");
        Ok(())
    })
}
