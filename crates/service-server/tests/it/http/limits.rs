//! Limits on what a peer may send and how slowly: bodies, heads, silence, and too many at once.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::{join_all, try_join_all};
use service_testkit::server::{Setup, TestServer, with_server};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{interval, timeout},
};

const BODY_LIMIT: usize = 65_536;
/// Longer than any answer takes, shorter than any limit of the server.
const SOON: Duration = Duration::from_secs(4);
const QUESTION: &str = r#"{"email":"ann@acme.test"}"#;

/// The head of a question for sign-in methods, with these lines more.
fn head(lines: &str) -> String {
    format!("POST /v1/login-options HTTP/1.1\r\nHost: service.test\r\nContent-Type: application/json\r\n{lines}\r\n")
}

fn chunk(bytes: &str) -> String {
    format!("{:x}\r\n{bytes}\r\n", bytes.len())
}

/// The one answer to `bytes`, after which the server must have closed.
async fn only_answer(server: &TestServer, bytes: &str) -> Result<String> {
    let text = timeout(SOON, server.http.raw(bytes.as_bytes())).await.context("the connection was not closed")??;
    ensure!(text.matches("HTTP/1.1 ").count() == 1, "not one answer: {text}");
    Ok(text)
}

/// Reads one answer with a length from a connection that stays open.
async fn read_answer(stream: &mut TcpStream) -> Result<String> {
    let mut text = String::new();
    loop {
        let mut buffer = [0; 4_096];
        let read = stream.read(&mut buffer).await?;
        ensure!(read > 0, "the server closed the connection after: {text}");
        text += std::str::from_utf8(&buffer[..read])?;
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.context("the answer has no length")?.parse()? {
            return Ok(text);
        }
    }
}

#[test]
fn a_body_beyond_the_limit_is_refused_before_it_is_read_ht_05() -> Result<()> {
    with_server(async |server| {
        let padded = |length: usize| format!("{QUESTION}{}", " ".repeat(length - QUESTION.len()));
        let (whole, beyond) = (padded(BODY_LIMIT), padded(BODY_LIMIT + 1));
        let chunks =
            |body: &str| body.as_bytes().chunks(8_000).map(|part| chunk(&String::from_utf8_lossy(part))).collect();
        let chunked = |body: &str, rest: &str| {
            let chunks: String = chunks(body);
            format!("{}{chunks}{rest}", head("Transfer-Encoding: chunked\r\nConnection: close\r\n"))
        };
        let sized = |announced: usize, body: &str| {
            format!("{}{body}", head(&format!("Content-Length: {announced}\r\nConnection: close\r\n")))
        };
        for (name, request, expected) in [
            ("as long as allowed", sized(BODY_LIMIT, &whole), 200),
            ("as long as allowed, in chunks", chunked(&whole, "0\r\n\r\n"), 200),
            ("a byte more", sized(BODY_LIMIT + 1, &beyond), 413),
            ("a byte more, announced only", sized(BODY_LIMIT + 1, ""), 413),
            ("gigabytes, announced only", sized(1 << 40, ""), 413),
            ("a byte more, in chunks", chunked(&beyond, "0\r\n\r\n"), 413),
            ("a byte more, in chunks without end", chunked(&beyond, ""), 413),
            (
                "expecting to be told to go on",
                sized(1 << 40, "").replace("Host:", "Expect: 100-continue\r\nHost:"),
                413,
            ),
        ] {
            let response = only_answer(server, &request).await?;
            ensure!(response.starts_with(&format!("HTTP/1.1 {expected} ")), "{name}: {response}");
            ensure!(response.contains("connection: close\r\n"), "{name}: {response}");
            ensure!((expected == 413) == response.contains("\"payload_too_large\""), "{name}: {response}");
        }
        Ok(())
    })
}

#[test]
fn a_body_without_end_is_not_taken_in_ht_05() -> Result<()> {
    with_server(async |server| {
        let mut stream = TcpStream::connect(server.address).await?;
        stream.write_all(head("Transfer-Encoding: chunked\r\n").as_bytes()).await?;
        let (part, mut taken) = (chunk(&" ".repeat(65_000)), 0_usize);
        // What the two sockets buffer is out of the server's hands; far more than that must not go.
        while taken < 64 << 20 {
            match timeout(SOON, stream.write(part.as_bytes())).await {
                Ok(Ok(written)) if written > 0 => taken += written,
                _ => break,
            }
        }
        assert!(taken < 32 << 20, "{taken} bytes were taken");
        Ok(())
    })
}

#[test]
fn heads_beyond_the_limits_are_refused_ht_06() -> Result<()> {
    with_server(async |server| {
        let get =
            |path: &str, lines: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{lines}\r\n");
        let many = |count: usize| "X-Filler: 1\r\n".repeat(count);
        let long = |length: usize| format!("X-Filler: {}\r\n", "a".repeat(length));
        let query = |length: usize| format!("/v1/whoami?workspaceId={}", "a".repeat(length));
        for (name, request, expected) in [
            ("a hundred headers", get("/v1/whoami", &many(98)), 401),
            ("16 kB of headers", get("/v1/whoami", &long(16_000)), 401),
            ("an address of 8 kB", get(&query(8_000), ""), 401),
            ("a header more", get("/v1/whoami", &many(99)), 431),
            ("many headers", get("/v1/whoami", &many(1_000)), 431),
            ("a large header", get("/v1/whoami", &long(16_400)), 431),
            ("a huge header", get("/v1/whoami", &long(1_000_000)), 431),
            ("large headers", get("/v1/whoami", &long(1_000).repeat(17)), 431),
            ("a huge name", get("/v1/whoami", &format!("{}: 1\r\n", "X".repeat(70_000))), 431),
            ("a large address", get(&query(8_200), ""), 414),
            ("a larger address", get(&query(30_000), ""), 414),
        ] {
            let response = only_answer(server, &request).await?;
            ensure!(response.starts_with(&format!("HTTP/1.1 {expected} ")), "{name}: {response}");
        }
        // So large that the connection's reader gives up, whichever of the two it says.
        let response = only_answer(server, &get(&query(1_000_000), "")).await?;
        ensure!(response.starts_with("HTTP/1.1 414 ") || response.starts_with("HTTP/1.1 431 "), "{response}");
        Ok(())
    })
}

/// Sends `start`, then a byte now and then, until the server closes; how long that took, and what it said.
async fn dawdle(server: &TestServer, start: &str) -> Result<(Duration, String)> {
    let stream = TcpStream::connect(server.address).await?;
    let (mut reading, mut writing) = stream.into_split();
    let began = Instant::now();
    writing.write_all(start.as_bytes()).await?;
    let mut said = Vec::new();
    let mut now_and_then = interval(Duration::from_millis(700));
    loop {
        tokio::select! {
            read = reading.read_buf(&mut said) => {
                if read.unwrap_or(0) == 0 {
                    return Ok((began.elapsed(), String::from_utf8_lossy(&said).into_owned()));
                }
            }
            _ = now_and_then.tick() => drop(writing.write_all(b"a").await),
        }
    }
}

/// Asks for so long; the time that half of the answers took at most.
async fn healthy(server: &TestServer, duration: Duration) -> Result<Duration> {
    let (began, mut times) = (Instant::now(), Vec::new());
    while began.elapsed() < duration {
        let asked = Instant::now();
        let response = server.http.get("/.well-known/jwks.json", None).await?;
        ensure!(response.status == 200, "a healthy request got {}", response.status);
        times.push(asked.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

#[test]
fn peers_that_send_a_head_slowly_are_dropped_and_delay_no_other_ht_07() -> Result<()> {
    with_server(async |server| {
        let starts = ["GET /v1/whoami HTTP/1.1\r\nX-Slow: ", "G", "POST /oauth/token HTTP/1.1\r\nHost: a\r\n"];
        let slow = try_join_all((0..300).map(|number| dawdle(server, starts[number % starts.len()])));
        let usual = healthy(server, Duration::from_secs(1)).await?;
        let (slow, then) = tokio::try_join!(slow, healthy(server, Duration::from_secs(4)))?;
        for (lasted, said) in slow {
            assert!((4.5..7.9).contains(&lasted.as_secs_f64()), "{lasted:?} {said}");
            assert!(!said.contains("HTTP/1.1 2"), "{said}");
        }
        assert!(then < 5 * usual + Duration::from_millis(20), "{then:?} for a request that takes {usual:?} at rest");
        Ok(())
    })
}

#[test]
fn a_connection_may_rest_between_requests_ht_07() -> Result<()> {
    with_server(async |server| {
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        let ask = format!("{}{QUESTION}", head(&format!("Content-Length: {}\r\n", QUESTION.len())));
        let refused = ask.replace("application/json", "text/plain");
        // Answered at once, from memory, with a body that is not read, from the database; and one that is silent at first.
        let paths = ["/nowhere", "/.well-known/jwks.json", "/v1/whoami"].map(get);
        let firsts = [paths.to_vec(), vec![refused, ask.clone(), String::new()]].concat();
        let rests = firsts.iter().map(async |first| -> Result<()> {
            let mut stream = TcpStream::connect(server.address).await?;
            if !first.is_empty() {
                stream.write_all(first.as_bytes()).await?;
                read_answer(&mut stream).await?;
            }
            let closed = timeout(Duration::from_secs(6), stream.read(&mut [0])).await;
            ensure!(closed.is_err(), "closed while it rested after: {first}");
            stream.write_all(ask.as_bytes()).await?;
            let response = timeout(SOON, read_answer(&mut stream)).await??;
            ensure!(response.starts_with("HTTP/1.1 200 "), "{response}");
            Ok(())
        });
        join_all(rests).await.into_iter().collect()
    })
}

#[test]
fn a_body_that_does_not_arrive_is_given_up_ht_07() -> Result<()> {
    with_server(async |server| {
        let sized = head("Content-Length: 1000\r\n");
        let starts = [sized.clone(), format!("{sized}{{"), head("Transfer-Encoding: chunked\r\n") + "3e8\r\n"];
        for (lasted, said) in try_join_all(starts.iter().map(|start| dawdle(server, start))).await? {
            assert!((4.5..7.9).contains(&lasted.as_secs_f64()), "{lasted:?} {said}");
            // It is the peer that was slow: an answer that blamed the service would make it try again for ever.
            assert!(said.starts_with("HTTP/1.1 400 ") && said.contains("\"invalid_request\""), "{said}");
        }
        Ok(())
    })
}

#[test]
fn a_request_that_takes_too_long_is_answered_by_the_deadline_ht_07() -> Result<()> {
    let setup = Setup::default().set("http.deadline_seconds", "0.5").set("database.deadline_seconds", "4");
    setup.run(async |server| {
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        let held = server.app.database.begin().await?;
        held.execute("lock table clients in access exclusive mode", &[]).await?;
        let asked = Instant::now();
        let response = server.exchange(&otp_id, &code, "read").await?;
        assert_eq!((response.status.as_u16(), response.error()), (503, "temporarily_unavailable"));
        assert!(response.header("retry-after").is_some_and(|after| after.parse::<u32>().is_ok_and(|after| after > 0)));
        assert!(asked.elapsed() < Duration::from_secs(2));
        drop(held);
        // Nothing of it happened: the code still works.
        assert_eq!(server.exchange(&otp_id, &code, "read").await?.status, 200);
        Ok(())
    })
}

#[test]
fn requests_beyond_what_a_node_can_work_on_are_turned_away_ht_07() -> Result<()> {
    Setup::default().set("http.in_flight", "1").set("database.deadline_seconds", "4").run(async |server| {
        let held = server.app.database.begin().await?;
        held.execute("lock table clients in access exclusive mode", &[]).await?;
        let first = server.exchange("otp_00000000000000000000000000", "00000000", "read");
        let second = async {
            while server.app.in_flight.available_permits() > 0 {
                tokio::task::yield_now().await;
            }
            let asked = Instant::now();
            let response = server.http.get("/.well-known/jwks.json", None).await?;
            let soon = asked.elapsed() < Duration::from_secs(1);
            drop(held);
            Ok((response, soon))
        };
        let (first, (second, soon)) = tokio::try_join!(first, second)?;
        assert_eq!((second.status.as_u16(), second.error(), soon), (503, "temporarily_unavailable", true));
        assert_eq!(second.header("retry-after"), Some("1"));
        assert_eq!((first.status.as_u16(), first.error()), (400, "invalid_grant"));
        assert_eq!(server.http.get("/.well-known/jwks.json", None).await?.status, 200);
        Ok(())
    })
}
