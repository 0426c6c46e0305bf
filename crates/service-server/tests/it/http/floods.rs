//! One network against all others: half-sent bodies, silent connections, responses that are never read.

use std::{
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures_util::{
    future::{join_all, try_join_all},
    stream::{FuturesUnordered, StreamExt as _},
};
use reqwest::Method;
use serde_json::{Value, json};
use service_server::node_limits::network_places::MAX_OUTGOING_PLACES;
use service_testkit::{
    process::Process,
    server::{Setup, SignedIn, TestServer, with_server},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    task::{JoinSet, yield_now},
    time::{interval, timeout},
};

use crate::support::contents::{make, send};

const SOON: Duration = Duration::from_secs(5);

/// When no connection is made for so long, none is going to be.
const QUIET: Duration = Duration::from_secs(1);

/// Longer than it takes to make some fifty pages of a megabyte while other tests run.
const PAGES_MADE: Duration = Duration::from_secs(30);

const QUESTION: &str = r#"{"email":"ann@acme.test"}"#;

fn question(lines: &str, length: usize) -> String {
    format!(
        "POST /v1/login-options HTTP/1.1\r\nHost: service.test\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n{lines}\r\n"
    )
}

/// Connects from an address of the loopback network, which stands for one of the internet.
async fn connect_from(server: SocketAddr, from: [u8; 4]) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddrV4::new(Ipv4Addr::from(from), 0).into())?;
    Ok(socket.connect(server).await?)
}

/// Sends this from each of fifty addresses of one network in turn, over so many connections.
async fn flood(server: &TestServer, count: usize, sent: &str) -> Result<Vec<TcpStream>> {
    let mut open = Vec::new();
    for number in 0..count {
        let mut stream = connect_from(server.address, [127, 9, 9, u8::try_from(number % 50)? + 1]).await?;
        // The server may have closed it already.
        drop(stream.write_all(sent.as_bytes()).await);
        open.push(stream);
        if number % 40 == 39 {
            // Connections are accepted in their order, and the kernel keeps few that are not accepted yet.
            let get = b"GET /.well-known/jwks.json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            let response = timeout(SOON, server.http.raw(get)).await.context("another network is kept out")??;
            ensure!(response.starts_with("HTTP/1.1 200 "), "another network got {response:.60}");
        }
    }
    Ok(open)
}

/// How many of these connections were closed or answered at once. So many are waited for, and for a moment for more.
async fn turned_away(streams: &[TcpStream], expected: usize) -> usize {
    let mut over: FuturesUnordered<_> = streams.iter().map(TcpStream::readable).collect();
    let mut count = 0;
    loop {
        let patience = if count < expected { SOON } else { Duration::from_millis(300) };
        match timeout(patience, over.next()).await {
            Ok(Some(_)) => count += 1,
            Ok(None) | Err(_) => return count,
        }
    }
}

/// Asks as another network does; every request must succeed.
async fn ask_as_another(server: &TestServer, times: usize) -> Result<()> {
    for _ in 0..times {
        let response = server.http.post("/v1/login-options", &json!({ "email": "ann@acme.test" })).await?;
        ensure!(response.status == 200, "another network got {}: {}", response.status, response.text);
    }
    Ok(())
}

#[test]
fn half_sent_bodies_of_one_network_leave_room_for_others_rv_23() -> Result<()> {
    // 512 bodies may arrive at once, 128 of them from one /24.
    let setup = Setup::default().set("http.in_flight", "64").set("http.connections", "4000");
    setup.run(async |server| {
        let places = server.app.arriving.free();
        let held = flood(server, 600, &format!("{}{{", question("", 1_000))).await?;
        let share = async {
            while server.app.arriving.free() > places - places / 4 {
                yield_now().await;
            }
        };
        timeout(SOON, share).await.context("the bodies did not begin to arrive")?;
        ask_as_another(server, 50).await?;
        assert_eq!(server.app.arriving.free(), places - places / 4, "one network holds more than its share");
        assert_eq!(turned_away(&held, 600 - places / 4).await, 600 - places / 4);
        drop(held);
        Ok(())
    })
}

#[test]
fn behind_a_proxy_bodies_count_for_the_address_it_forwards_rv_23() -> Result<()> {
    let setup = Setup::default().set("http.in_flight", "64").set("http.trusted_proxies", "127.0.0.1/32");
    setup.run(async |server| {
        let from = |address: &str| question(&format!("X-Forwarded-For: {address}\r\n"), QUESTION.len());
        let open = async |address: String| {
            let mut stream = TcpStream::connect(server.address).await?;
            stream.write_all(from(&address).as_bytes()).await?;
            anyhow::Ok(stream)
        };
        // One address may hold 32 of 512; a hundred addresses through the same proxy hold what they need.
        let one = try_join_all((0..40).map(|_| open("203.0.113.9".into()))).await?;
        let many = try_join_all((0..100).map(|number| open(format!("198.51.{number}.1")))).await?;
        assert_eq!((turned_away(&one, 8).await, turned_away(&many, 0).await), (8, 0));
        for mut stream in many {
            stream.write_all(QUESTION.as_bytes()).await?;
            let mut response = [0; 12];
            timeout(SOON, stream.read_exact(&mut response)).await??;
            assert_eq!(&response, b"HTTP/1.1 200");
        }
        Ok(())
    })
}

#[test]
fn a_body_that_arrives_slowly_and_steadily_is_waited_for_rv_23() -> Result<()> {
    with_server(async |server| {
        let body = format!("{QUESTION}{}", " ".repeat(60_000));
        let mut stream = TcpStream::connect(server.address).await?;
        stream.write_all(question("Connection: close\r\n", body.len()).as_bytes()).await?;
        let (began, mut pace) = (Instant::now(), interval(Duration::from_millis(850)));
        for piece in body.as_bytes().chunks(8_000) {
            pace.tick().await;
            stream.write_all(piece).await?;
        }
        assert!(began.elapsed() > Duration::from_secs(5), "it was not slow");
        let mut response = String::new();
        timeout(SOON, stream.read_to_string(&mut response)).await??;
        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
        Ok(())
    })
}

#[test]
fn silent_connections_of_one_network_do_not_keep_others_out_rv_24() -> Result<()> {
    // 100 of 400 connections for one /24.
    Setup::default().set("http.connections", "400").run(async |server| {
        let began = Instant::now();
        let silent = flood(server, 500, "").await?;
        assert_eq!(turned_away(&silent, 400).await, 400);
        ask_as_another(server, 20).await?;
        assert_eq!(server.ops.get("/healthz", None).await?.status, 200);
        // Those that were let in have ten seconds to say something.
        let ends = join_all(silent.into_iter().map(async |mut stream| {
            drop(timeout(Duration::from_secs(20), stream.read(&mut [0])).await);
            began.elapsed().as_secs_f64()
        }));
        let held = ends.await.into_iter().filter(|seconds| *seconds > 5.0).collect::<Vec<_>>();
        assert_eq!(held.len(), 100);
        assert!(held.iter().all(|seconds| (9.5..14.0).contains(seconds)), "{held:?}");
        Ok(())
    })
}

#[test]
fn a_trusted_proxy_may_hold_all_connections_rv_24() -> Result<()> {
    let setup = Setup::default().set("http.connections", "100").set("http.trusted_proxies", "127.0.0.1/32");
    setup.run(async |server| {
        let get = b"GET /.well-known/jwks.json HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut open = Vec::new();
        for _ in 0..90 {
            let mut stream = TcpStream::connect(server.address).await?;
            stream.write_all(get).await?;
            let mut response = [0; 12];
            timeout(SOON, stream.read_exact(&mut response)).await??;
            assert_eq!(&response, b"HTTP/1.1 200");
            open.push(stream);
        }
        Ok(())
    })
}

/// Starts a node with the limit on open files that these arguments of `ulimit` set.
fn node_with_files(server: &TestServer, ulimit: &str) -> Result<Process> {
    Process::start_with_ulimit(ulimit, Path::new(env!("CARGO_BIN_EXE_serviced")), &server.settings, &server.leaks)
}

#[test]
fn a_node_without_descriptors_left_still_answers_its_health_checks_rv_24() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        // Half of them are kept for other things.
        let node = node_with_files(server, "-n 450")?;
        let address: SocketAddr = node.http.url.trim_start_matches("http://").parse()?;
        // More than there are, from many networks, none of which takes more than its share. What is not accepted waits in
        // the kernel, or for the kernel.
        let networks = (3..6_u8).flat_map(|second| (0..200_u8).map(move |third| [127, second, third, 1]));
        let mut connecting: JoinSet<_> = networks.map(|from| connect_from(address, from)).collect();
        let mut silent = Vec::new();
        loop {
            let patience = if silent.len() <= 200 { SOON } else { QUIET };
            match timeout(patience, connecting.join_next()).await {
                Ok(Some(opened)) => silent.push(opened??),
                Ok(None) | Err(_) => break,
            }
        }
        assert!(silent.len() > 200, "{} connections were opened", silent.len());
        for path in ["/healthz", "/readyz", "/metrics"] {
            let response = timeout(SOON, node.ops.get(path, None)).await.context("no answer")??;
            assert_eq!(response.status, 200, "{path}");
        }
        drop(silent);
        assert_eq!(node.http.get("/.well-known/jwks.json", None).await?.status, 200);
        Ok(())
    })
}

#[test]
fn a_node_raises_its_limit_on_open_files_rv_24() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let node = node_with_files(server, "-S -n 256")?;
        let address: SocketAddr = node.http.url.trim_start_matches("http://").parse()?;
        let get = b"GET /.well-known/jwks.json HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut open = Vec::new();
        for number in 0..400_u16 {
            let mut stream = connect_from(address, [127, 3, u8::try_from(number % 200)?, 1]).await?;
            stream.write_all(get).await?;
            let mut response = [0; 12];
            timeout(SOON, stream.read_exact(&mut response)).await??;
            assert_eq!(&response, b"HTTP/1.1 200");
            open.push(stream);
        }
        Ok(())
    })
}

/// Records that fill more than one page.
async fn fill(server: &TestServer, who: &SignedIn) -> Result<()> {
    for number in 0..30 {
        let record = json!({ "name": format!("Record {number}"), "data": { "a": "a".repeat(60_000) } });
        make(server, "/v1/records", who, &record).await?;
    }
    Ok(())
}

#[test]
fn a_page_ends_at_a_megabyte_rv_25() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        fill(server, &ann).await?;
        for number in 0..30 {
            let pack = json!({ "name": format!("Harbour {number}"), "type": "context", "text": "€".repeat(20_000) });
            make(server, "/v1/packs", &ann, &pack).await?;
        }
        let list = async |cursor: &str| {
            let path = format!("/v1/records?limit=100{cursor}");
            send(server, "GET", &path, &ann, None).await
        };
        let search = async |cursor: Option<&str>| {
            let mut body = json!({ "type": "context", "query": "harbour", "limit": 100 });
            body["cursor"] = cursor.map_or(Value::Null, Into::into);
            if cursor.is_none() {
                body.as_object_mut().map(|body| body.remove("cursor"));
            }
            send(server, "POST", "/v1/packs/search", &ann, Some(&body)).await
        };
        for listed in [true, false] {
            let (mut ids, mut pages, mut cursor) = (Vec::new(), 0, None::<String>);
            loop {
                let response = if listed {
                    list(&cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default()).await?
                } else {
                    search(cursor.as_deref()).await?
                };
                ensure!(response.status == 200, "{}", response.text);
                assert!(response.text.len() < 1_100_000, "a page of {} bytes", response.text.len());
                let data = response.body["data"].as_array().context("no data")?;
                ids.extend(data.iter().map(|content| content["id"].as_str().unwrap_or_default().to_owned()));
                pages += 1;
                cursor = response.body["nextCursor"].as_str().map(str::to_owned);
                if cursor.is_none() {
                    break;
                }
            }
            ids.sort();
            ids.dedup();
            assert_eq!((ids.len(), pages), (30, 2), "listed: {listed}");
        }
        Ok(())
    })
}

#[test]
fn unread_responses_take_no_more_than_a_share_rv_25() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        fill(server, &ann).await?;
        let get = format!(
            "GET /v1/records?limit=100 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\n\r\n",
            ann.access_token
        );
        // More pages than the kernel keeps for a peer that does not read.
        let open = (0..9).map(async |_| {
            let socket = TcpSocket::new_v4()?;
            socket.set_recv_buffer_size(4_096)?;
            socket.bind(SocketAddrV4::new(Ipv4Addr::new(127, 9, 9, 1), 0).into())?;
            let mut stream = socket.connect(server.address).await?;
            stream.write_all(get.repeat(8).as_bytes()).await?;
            anyhow::Ok(stream)
        });
        let unread = try_join_all(open).await?;
        let share = MAX_OUTGOING_PLACES / 16;
        let filled = async {
            while server.app.outgoing.free() > MAX_OUTGOING_PLACES - share * 3 / 4 {
                yield_now().await;
            }
        };
        timeout(PAGES_MADE, filled).await.context("unread responses are not counted")?;
        let request = server.http.request(Method::GET, "/v1/records?limit=100").bearer_auth(&ann.access_token);
        assert_eq!(server.http.send(request).await?.status, 200, "another network finds no room");
        assert!(server.app.outgoing.free() >= MAX_OUTGOING_PLACES - share, "one network holds more than its share");
        drop(unread);
        let given_back = async {
            while server.app.outgoing.free() < MAX_OUTGOING_PLACES {
                yield_now().await;
            }
        };
        timeout(PAGES_MADE, given_back).await.context("places were not given back")
    })
}
