//! Traces: what a collector gets of a request, what it never gets, and that no request waits for it.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use service_testkit::{
    process::{Process, command},
    response::TestResponse,
    server::{Setup, TestServer},
};

use crate::support::{
    cli_tokens,
    mcp::{self, done},
    trace_collector::{Manner, TraceCollector, attribute},
};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_serviced"))
}

/// The span of the request that got this response.
async fn span_of(collector: &TraceCollector, response: &TestResponse) -> Result<Value> {
    collector.span("request.id", response.header("x-request-id").unwrap_or_default()).await
}

#[test]
fn a_request_has_a_span_with_its_route_and_its_statements() -> Result<()> {
    let collector = TraceCollector::start(Manner::Takes)?;
    collector.setup().set("database.coalesce", "no").run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let missing = "prj_01kabcdefghjkmnpqrstvwxyz0";
        let path = format!("/v1/projects/{missing}?workspaceId=personal");
        let response = server.http.get(&path, Some(&ann.access_token)).await?;
        let span = span_of(&collector, &response).await?;
        assert_eq!(span["name"], "GET /v1/projects/{projectId}", "{span}");
        assert_eq!(span["kind"], 2);
        assert_eq!(attribute(&span, "http.route").as_deref(), Some("/v1/projects/{projectId}"));
        assert_eq!(attribute(&span, "http.response.status_code"), Some(response.status.as_u16().to_string()));
        assert!(span["parentSpanId"].is_null() && span["status"].is_null(), "{span}");

        let refreshed = server.refresh(&ann.refresh_token).await?;
        let span = span_of(&collector, &refreshed).await?;
        assert_eq!(attribute(&span, "flow").as_deref(), Some("refresh_grant"));
        let all = collector.spans();
        let parts: Vec<_> = all.iter().filter(|part| part["parentSpanId"] == span["spanId"]).collect();
        ensure!(parts.iter().all(|part| part["traceId"] == span["traceId"]), "{parts:?}");
        let statement = parts.iter().find(|part| part["name"] == "update grants");
        let statement = statement.unwrap_or_else(|| panic!("no statement about grants: {parts:?}"));
        assert_eq!(attribute(statement, "code.file.path").as_deref(), Some("grants.rs"));
        assert!(attribute(statement, "code.line.number").is_some_and(|line| line.parse::<u32>().is_ok()));
        assert!(parts.iter().any(|part| part["name"] == "connection"), "no connection: {parts:?}");
        // A sign-in is a transaction, a refresh is one statement.
        for name in ["begin", "commit"] {
            assert!(all.iter().any(|span| span["name"] == name), "no {name}: {all:?}");
        }
        let time = |span: &Value, key: &str| span[key].as_str().unwrap_or_default().parse::<u128>().unwrap_or_default();
        for part in &parts {
            assert!(time(part, "startTimeUnixNano") >= time(&span, "startTimeUnixNano"), "{part}");
            assert!(time(part, "endTimeUnixNano") <= time(&span, "endTimeUnixNano"), "{part}");
        }
        Ok(())
    })
}

#[test]
fn a_refresh_has_a_span_for_each_batch_and_for_its_statement_if_it_is_alone() -> Result<()> {
    let collector = TraceCollector::start(Manner::Takes)?;
    collector.setup().run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let span = span_of(&collector, &server.refresh(&ann.refresh_token).await?).await?;
        let parts = collector.spans().into_iter().filter(|part| part["parentSpanId"] == span["spanId"]);
        let names: Vec<_> = parts.map(|part| part["name"].as_str().unwrap_or_default().to_owned()).collect();
        let alone = ["connection", "select grants", "select grant_batches", "connection", "with grant_batches"];
        assert_eq!(names, [&alone[..], &["update grant_batches"]].concat());
        Ok(())
    })
}

/// Sends a request with a trace context; its span, if it has one.
async fn traced(server: &TestServer, collector: &TraceCollector, flags: &str) -> Result<Option<Value>> {
    let send = async |parent: String| {
        let request = server.http.request(Method::GET, "/v1/whoami").header("traceparent", parent);
        server.http.send(request.header("tracestate", "acme=canary")).await
    };
    let response = send(format!("00-{TRACE}-{PARENT}-{flags}")).await?;
    // An exporter that had this span would have sent it by now.
    let sent = tokio::time::timeout(Duration::from_millis(2_500), span_of(collector, &response)).await;
    ensure!(!String::from_utf8_lossy(&collector.bytes()).contains("canary"), "the trace state is passed on");
    sent.ok().transpose()
}

#[test]
fn a_stranger_neither_chooses_its_trace_nor_has_it_sampled() -> Result<()> {
    let collector = TraceCollector::start(Manner::Takes)?;
    collector.setup().run(async |server| {
        for flags in ["01", "00"] {
            let span = traced(server, &collector, flags).await?;
            let span = span.unwrap_or_else(|| panic!("not traced"));
            assert!(span["traceId"] != TRACE && span["parentSpanId"].is_null(), "{span}");
        }
        Ok(())
    })?;
    let collector = TraceCollector::start(Manner::Takes)?;
    collector.setup().set("traces.sample_ratio", "0").run(async |server| {
        assert_eq!(traced(server, &collector, "01").await?, None);
        Ok(())
    })
}

#[test]
fn the_trace_of_a_trusted_proxy_is_continued_as_the_proxy_decided() -> Result<()> {
    let collector = TraceCollector::start(Manner::Takes)?;
    let trusting = collector.setup().set("http.trusted_proxies", "127.0.0.1/32");
    trusting.clone().set("traces.sample_ratio", "0").run(async |server| {
        let span = traced(server, &collector, "01").await?.unwrap_or_else(|| panic!("not traced"));
        assert_eq!((&span["traceId"], &span["parentSpanId"]), (&json!(TRACE), &json!(PARENT)));
        Ok(())
    })?;
    let collector = TraceCollector::start(Manner::Takes)?;
    trusting.set("traces.endpoint", &collector.url()).run(async |server| {
        assert_eq!(traced(server, &collector, "00").await?, None);
        // What is no trace context begins a new trace.
        let span = traced(server, &collector, "0x").await?.unwrap_or_else(|| panic!("not traced"));
        assert!(span["traceId"] != TRACE && span["parentSpanId"].is_null(), "{span}");
        Ok(())
    })
}

#[test]
fn no_span_has_a_secret_or_says_who_it_was() -> Result<()> {
    let collector = TraceCollector::start(Manner::Takes)?;
    let token = "collector-token-of-acme";
    let setup = collector.setup().set("traces.token", token);
    setup.run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        server.refresh(&ann.refresh_token).await?;
        let (id, secret) = cli_tokens::make(server, &ann, &json!({ "name": "Lighthouse", "scope": "read" })).await?;
        let agent = "Mozilla/5.0 (Lighthouse)";
        let request = server.http.request(Method::GET, "/v1/whoami?canary=1").bearer_auth(&secret);
        server.http.send(request.header("user-agent", agent)).await?;
        let mcp = mcp::token(server, &ann, "read write").await?;
        let project = done(server, &mcp, "create_project", &json!({ "name": "Lighthouse" })).await?;
        let last = server.http.get(&format!("/v1/cli/tokens/{id}"), Some(&ann.access_token)).await?;
        span_of(&collector, &last).await?;

        let spans = collector.spans();
        let call = spans.iter().find(|span| attribute(span, "flow").as_deref() == Some("create_project"));
        let call = call.unwrap_or_else(|| panic!("no span of the tool"));
        let parts = spans.iter().filter(|part| part["parentSpanId"] == call["spanId"]);
        assert!(parts.filter(|part| part["name"] == "insert contents").count() > 0, "no statement of the tool");

        server.leaks.assert_clean("spans", &collector.bytes());
        let text = String::from_utf8_lossy(&collector.bytes()).into_owned();
        let user = ann.user_id.to_string();
        let project = project["id"].as_str().unwrap_or_default();
        ensure!(!project.is_empty() && spans.len() > 30, "{} spans", spans.len());
        for private in ["ann@", "acme.test", "Lighthouse", "Mozilla", "canary", "$1", &user, &id, project] {
            assert!(!text.contains(private), "{private} is exported");
        }
        // The collector's own address and token are in the heads of requests only.
        assert!(text.to_lowercase().contains(&format!("authorization: bearer {token}")));
        let bodies = serde_json::to_string(&spans)?;
        assert!(!bodies.contains("127.0.0.1") && !bodies.contains(token), "{bodies}");
        // Nothing of the token is in the log either.
        server.leaks.register("collector token", token);
        Ok(())
    })
}

#[test]
fn no_request_waits_for_a_collector_that_hangs_or_is_gone() -> Result<()> {
    let hanging = TraceCollector::start(Manner::Hangs)?;
    let gone = "http://127.0.0.1:9/v1/traces".to_owned();
    for url in [hanging.url(), gone] {
        let setup = Setup::default().set("traces.endpoint", &url).set("traces.sample_ratio", "1");
        setup.run(async |server| {
            let began = Instant::now();
            let mut slowest = Duration::ZERO;
            while began.elapsed() < Duration::from_secs(5) {
                let asked = Instant::now();
                assert_eq!(server.http.get("/v1/whoami", None).await?.status, 401);
                slowest = slowest.max(asked.elapsed());
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert!(slowest < Duration::from_secs(1), "{url}: {slowest:?}");
            let metrics = server.ops.get("/metrics", None).await?.text;
            let failed =
                metrics.lines().find_map(|line| line.strip_prefix("service_trace_spans_total{outcome=\"failed\"} "));
            assert!(failed.is_some_and(|count| count != "0"), "{url}: no span failed");
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn a_node_that_stops_exports_its_last_spans_within_its_time() -> Result<()> {
    let collector = TraceCollector::start(Manner::Takes)?;
    let hanging = TraceCollector::start(Manner::Hangs)?;
    Setup::default().on_system_clock().run(async |server| {
        let mut settings = server.settings.clone();
        settings.set("traces.endpoint", &collector.url());
        settings.set("traces.sample_ratio", "1");
        let mut node = Process::start(binary(), &settings, &server.leaks)?;
        let response = node.http.get("/v1/whoami", None).await?;
        assert_eq!(node.terminate()?, Some(0));
        let id = response.header("x-request-id").unwrap_or_default();
        let sent = collector.spans().iter().any(|span| attribute(span, "request.id").as_deref() == Some(id));
        assert!(sent, "the last span is lost");

        settings.set("traces.endpoint", &hanging.url());
        settings.set("http.drain_seconds", "1");
        let mut node = Process::start(binary(), &settings, &server.leaks)?;
        node.http.get("/v1/whoami", None).await?;
        let told = Instant::now();
        assert_eq!(node.terminate()?, Some(0));
        // An export that runs already has three seconds.
        assert!(told.elapsed() < Duration::from_secs(5), "stopped after {:?}", told.elapsed());
        Ok(())
    })
}

#[test]
fn a_new_token_of_the_collector_is_taken_over_without_a_restart() -> Result<()> {
    let collector = TraceCollector::start(Manner::Takes)?;
    Setup::default().on_system_clock().run(async |server| {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("token");
        fs::write(&file, "first-collector-token\n")?;
        let mut settings = server.settings.clone();
        settings.set("traces.endpoint", &collector.url());
        settings.set("traces.sample_ratio", "1");
        let mut run = command(binary(), &settings, "run");
        run.env("SERVICED_TRACES_TOKEN_FILE", &file);
        let node = Process::wait_until_ready(run, &server.leaks)?;
        let sent = |token: &str| String::from_utf8_lossy(&collector.bytes()).to_lowercase().contains(token);
        span_of(&collector, &node.http.get("/v1/whoami", None).await?).await?;
        assert!(sent("bearer first-collector-token") && !sent("bearer second-collector-token"));
        fs::write(&file, "second-collector-token\n")?;
        ensure!(Command::new("kill").args(["-HUP", &node.pid().to_string()]).status()?.success());
        let told = Instant::now();
        while !String::from_utf8_lossy(&node.log()).contains(r#""changed":"traces.token"}"#) {
            ensure!(told.elapsed() < Duration::from_secs(10), "not reloaded");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        span_of(&collector, &node.http.get("/v1/whoami", None).await?).await?;
        assert!(sent("bearer second-collector-token"));
        let log = String::from_utf8_lossy(&node.log()).into_owned();
        assert!(!log.contains("collector-token"), "the token is in the log");
        Ok(())
    })
}
