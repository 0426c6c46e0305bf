//! Requests as bytes: where one ends and the next begins, and which route it reaches.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use service_api::endpoints::{self, Access};
use service_testkit::server::{TestServer, with_server};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// Whatever comes behind a request: it must never be answered as a second one.
const SMUGGLED: &str = "GET /.well-known/jwks.json HTTP/1.1\r\nHost: service.test\r\nConnection: close\r\n\r\n";
const SOON: Duration = Duration::from_secs(3);

/// Everything the server says to `bytes` until it closes, which must be at once.
async fn raw(server: &TestServer, bytes: &[u8]) -> Result<String> {
    timeout(SOON, server.http.raw(bytes)).await.context("the connection was not closed")?
}

/// A question for sign-in methods, framed by `lines`, with a body that would be right.
fn framed(lines: &str, body: &str) -> String {
    let head = "POST /v1/login-options HTTP/1.1\r\nHost: service.test\r\nContent-Type: application/json\r\n";
    format!("{head}{lines}\r\n\r\n{body}{SMUGGLED}")
}

const JSON: &str = r#"{"email":"ann@acme.test"}"#;
const CHUNKED: &str = "19\r\n{\"email\":\"ann@acme.test\"}\r\n0\r\n\r\n";

/// Two words on where the body ends, or one that can be read in two ways.
fn unclear_lengths() -> Vec<String> {
    let length = |value: &str| format!("Content-Length:{value}");
    let encoding = |value: &str| format!("Transfer-Encoding:{value}");
    let (exact, chunks) = (&length(" 25"), &encoding(" chunked"));
    vec![
        framed(&format!("{exact}\r\n{chunks}"), CHUNKED),
        framed(&format!("{chunks}\r\n{exact}"), CHUNKED),
        framed(&format!("{exact}\r\n{}", length(" 5")), JSON),
        framed(&format!("{exact}\r\n{exact}"), JSON),
        framed(&format!("{exact}\r\nX-Between: 1\r\n{}", exact.to_lowercase()), JSON),
        framed(&length(" 25, 25"), JSON),
        framed(&length(" 25,26"), JSON),
        framed(&length(" +25"), JSON),
        framed(&length(" -1"), JSON),
        framed(&length(" 0x19"), JSON),
        framed(&length(" 25 25"), JSON),
        framed(&length(" 18446744073709551641"), JSON),
        framed(&length(""), JSON),
        framed("Content-Length : 25", JSON),
        framed(" Content-Length: 25", JSON),
        framed(&encoding(" chunked, identity"), CHUNKED),
        framed(&encoding(" identity, chunked"), CHUNKED),
        framed(&encoding(" gzip, chunked"), CHUNKED),
        framed(&encoding(" chunked, chunked"), CHUNKED),
        framed(&encoding(" xchunked"), CHUNKED),
        framed(&encoding(" \"chunked\""), CHUNKED),
        framed(&encoding("\u{b}chunked"), CHUNKED),
        framed(&encoding(""), CHUNKED),
        framed(&format!("{chunks}\r\n{chunks}"), CHUNKED),
        framed(&format!("{chunks}\r\n{}", encoding(" identity")), CHUNKED),
        framed("Transfer-Encoding : chunked", CHUNKED),
        framed(chunks, CHUNKED).replacen("HTTP/1.1", "HTTP/1.0", 1),
    ]
}

/// Lines that end or begin where not every reader thinks they do.
fn unclear_lines() -> Vec<String> {
    let exact = "Content-Length: 25";
    let get = |head: &str| format!("GET /.well-known/jwks.json HTTP/1.1{head}{SMUGGLED}");
    vec![
        framed(&format!("X-Bare: a\n{exact}"), JSON),
        framed(&format!("X-Bare: a\r{exact}"), JSON),
        framed(&format!("X-Folded: a\r\n {exact}"), JSON),
        framed(&format!("X-Folded: a\r\n\t{exact}"), JSON),
        framed(exact, JSON).replacen("\r\n", "\n", 1),
        framed(exact, JSON).replacen("\r\n\r\n", "\n\n", 1),
        framed(exact, JSON).replacen("\r\n\r\n", "\r\n\n", 1),
        framed(&format!("host: other.test\r\n{exact}"), JSON),
        get("\nHost: a\n\n"),
        get("\r\nHost: a\r\nNul: a\0b\r\n\r\n"),
        get("\r\nHost: a\r\nno colon\r\n\r\n"),
        get("\r\nHost: a\r\n: no name\r\n\r\n"),
        get("\r\nHost: a\r\n").replace("1.1\r\nHost: a", ""),
        format!("GET /.well-known/jwks.json\r\n\r\n{SMUGGLED}"),
        get("").replacen("HTTP/1.1", "HTTP/1.2", 1),
        get("\r\nHost: a\r\n\r\n").replacen("HTTP/1.1", "HTTP/2.0", 1),
        get("\r\nHost: a\r\n\r\n").replacen("HTTP/1.1", "HTTP/11", 1),
        get("\r\nHost: a\r\n\r\n").replacen("HTTP/1.1", "http/1.1", 1),
        get("\r\nHost: a\r\n\r\n").replacen("GET ", "GET  ", 1),
        get("\r\nHost: a\r\n\r\n").replacen("GET ", "GET\t", 1),
        get("\r\nHost: a\r\n\r\n").replacen("jwks.json", "jwks json", 1),
    ]
}

#[test]
fn a_request_whose_end_is_in_doubt_is_refused_ht_08() -> Result<()> {
    with_server(async |server| {
        for request in unclear_lengths().into_iter().chain(unclear_lines()) {
            let response = raw(server, request.as_bytes()).await?;
            let shown = request.replace(SMUGGLED, "…");
            ensure!(response.starts_with("HTTP/1.1 400 "), "{shown:?} got {response:.30}");
            ensure!(response.matches("HTTP/1.").count() == 1, "two answers to {shown:?}");
            ensure!(response.contains("connection: close\r\n"), "not closed after {shown:?}");
        }
        Ok(())
    })
}

/// The head of a second request is in doubt, and it comes in the same piece as the first, whose end is not.
#[test]
fn a_request_behind_another_is_looked_at_too_rv_34() -> Result<()> {
    with_server(async |server| {
        let plain = [
            "GET /.well-known/jwks.json HTTP/1.1\r\nHost: service.test\r\n\r\n".to_owned(),
            framed("Content-Length: 25", JSON).replace(SMUGGLED, ""),
            framed("Transfer-Encoding: chunked", CHUNKED).replace(SMUGGLED, ""),
        ];
        for request in unclear_lengths().into_iter().chain(unclear_lines()) {
            for first in &plain {
                let responses = raw(server, format!("{first}{request}").as_bytes()).await?;
                let shown = request.replace(SMUGGLED, "…");
                ensure!(responses.starts_with("HTTP/1.1 200 "), "{first:?} got {responses:.30}");
                let statuses: Vec<_> = responses.match_indices("HTTP/1.1 ").map(|(at, _)| &responses[at..]).collect();
                ensure!(statuses.len() == 2, "{} answers to {shown:?} behind {first:?}", statuses.len());
                ensure!(statuses[1].starts_with("HTTP/1.1 400 "), "{shown:?} got {:.30}", statuses[1]);
            }
        }
        Ok(())
    })
}

#[test]
fn a_body_whose_chunks_are_broken_ends_the_connection_ht_08() -> Result<()> {
    with_server(async |server| {
        for chunks in [
            format!("19\n{JSON}\n0\n\n"),
            format!("0x19\r\n{JSON}\r\n0\r\n\r\n"),
            format!("-19\r\n{JSON}\r\n0\r\n\r\n"),
            format!("10000000000000019\r\n{JSON}\r\n0\r\n\r\n"),
            format!("18\r\n{JSON}\r\n0\r\n\r\n"),
            format!("zz\r\n{JSON}\r\n0\r\n\r\n"),
            format!("\r\n{JSON}\r\n0\r\n\r\n"),
            format!("19;a=\n{JSON}\r\n0\r\n\r\n"),
        ] {
            let response = raw(server, framed("Transfer-Encoding: chunked", &chunks).as_bytes()).await?;
            ensure!(response.starts_with("HTTP/1.1 400 "), "{chunks:?} got {response:.30}");
            ensure!(response.matches("HTTP/1.").count() == 1, "two answers to {chunks:?}");
        }
        Ok(())
    })
}

#[test]
fn http_2_is_not_spoken_ht_09() -> Result<()> {
    with_server(async |server| {
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0].to_vec();
        // A hundred streams opened and reset at once, and a head that goes on for ever.
        let resets = (0..100_u8)
            .flat_map(|n| [0, 0, 1, 1, 5, 0, 0, 0, 2 * n + 1, 0x82, 0, 0, 4, 3, 0, 0, 0, 0, 2 * n + 1, 0, 0, 0, 8]);
        let goes_on = [0, 0, 1, 9, 0, 0, 0, 0, 1, 0x82].repeat(1_000);
        for frames in
            [Vec::new(), settings.clone(), [settings.clone(), resets.collect()].concat(), [settings, goes_on].concat()]
        {
            let response = raw(server, &[preface.clone(), frames].concat()).await?;
            ensure!(response.is_empty() || response.starts_with("HTTP/1.1 400 "), "{response:.60}");
        }
        let upgrade =
            "Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n";
        let request = SMUGGLED.replace("Connection: close\r\n\r\n", upgrade);
        let response = raw(server, request.as_bytes()).await?;
        ensure!(response.starts_with("HTTP/1.1 200 "), "an offer to upgrade is not taken up: {response:.60}");
        Ok(())
    })
}

#[test]
fn a_route_has_one_spelling_ht_10() -> Result<()> {
    with_server(async |server| {
        // A segment that varies takes any spelling, and its handler looks at it.
        for endpoint in endpoints::ALL.iter().filter(|row| !row.path.contains('{') && row.access != Access::Browser) {
            let (method, path) = (endpoint.method.as_str(), endpoint.path);
            let (parent, name) = path.rsplit_once('/').context("a path without a slash")?;
            for spelling in [
                format!("/{path}"),
                format!("{path}/"),
                format!("{path}//"),
                format!("{path};x=1"),
                format!("{path}%2f"),
                format!("{path}%00"),
                format!("{path}%20"),
                format!("{path}."),
                format!("{path}.json"),
                format!("{path}/."),
                format!("{path}/..{}", &path[parent.len()..]),
                format!("{path}%3fa=b"),
                format!("{path}#x"),
                format!("{path}#?x"),
                format!("{parent}//{name}"),
                format!("{parent}/./{name}"),
                format!("{parent}/%2e/{name}"),
                format!("{parent}/x/../{name}"),
                format!("{parent}/x/%2e%2e/{name}"),
                format!("{parent}%2f{name}"),
                format!("{parent}\\{name}"),
                format!("{parent};x=1/{name}"),
                format!("{parent}/%{:02x}{}", name.as_bytes()[0], &name[1..]),
                format!("{parent}/%25{:02x}{}", name.as_bytes()[0], &name[1..]),
                format!("{parent}/{}", name.to_uppercase()),
                path.to_uppercase(),
            ] {
                let request = format!("{method} {spelling} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
                let response = raw(server, request.as_bytes()).await?;
                // Where a segment varies, a misspelt name is such a segment: the method does not fit, or a token is wanted.
                let varies = endpoints::ALL.iter().filter_map(|row| row.path.split_once('{'));
                let wrong_method = varies.into_iter().any(|(before, _)| spelling.starts_with(before))
                    && (response.starts_with("HTTP/1.1 405 ") || response.starts_with("HTTP/1.1 401 "));
                let refused =
                    wrong_method || response.starts_with("HTTP/1.1 404 ") || response.starts_with("HTTP/1.1 400 ");
                let understood = response.contains("\"invalid_request\"");
                ensure!(refused && !understood, "{method} {spelling} got {response:.30}");
            }
        }
        Ok(())
    })
}

/// More digits than the largest size has, and all of them zeros: the size behind them counts.
const ZEROS: &str = "00000000000000000";

#[test]
fn plain_requests_are_read_however_they_are_cut_ht_08() -> Result<()> {
    with_server(async |server| {
        let first = format!("\r\n{}", framed(&format!("content-length:{}", JSON.len()), JSON));
        let second = framed(
            "TRANSFER-ENCODING:  Chunked ",
            &format!("{ZEROS}19;ext=1\r\n{JSON}\r\n{ZEROS}\r\nX-Trailer: 1\r\n\r\n"),
        );
        let requests = format!("{}{second}", first.replace(SMUGGLED, ""));
        for size in [requests.len(), 200, 100, 17, 1] {
            let mut stream = TcpStream::connect(server.address).await?;
            stream.set_nodelay(true)?;
            for piece in requests.as_bytes().chunks(size) {
                stream.write_all(piece).await?;
                tokio::task::yield_now().await;
            }
            let mut responses = String::new();
            timeout(SOON, stream.read_to_string(&mut responses)).await??;
            assert_eq!(responses.matches("HTTP/1.1 200 OK").count(), 3, "in pieces of {size}: {responses}");
        }
        Ok(())
    })
}
