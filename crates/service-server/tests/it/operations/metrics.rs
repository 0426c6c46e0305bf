//! `/metrics` as Prometheus reads it: in both of its formats, with counters that begin at 0.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use reqwest::{Method, header};
use serde_json::json;
use service_server::{app::App, clock::Clock, crypto::random, tasks::measurements};
use service_testkit::{
    process::Process,
    response::TestResponse,
    server::{Setup, TestServer, config, with_server},
};

async fn scrape(server: &TestServer, accept: Option<&str>) -> Result<TestResponse> {
    let mut request = server.ops.request(Method::GET, "/metrics");
    if let Some(accept) = accept {
        request = request.header(header::ACCEPT, accept);
    }
    server.ops.send(request).await
}

/// What Prometheus 2 sends.
const PROMETHEUS: &str = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

/// Checks a page line by line: each family is described before its samples, once, and its samples are together.
fn check_families(text: &str, is_open_metrics: bool) -> Result<BTreeMap<String, String>> {
    let (mut kinds, mut helped, mut current) = (BTreeMap::new(), BTreeSet::new(), String::new());
    let mut samples = BTreeSet::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, _) = help.split_once(' ').context("no help")?;
            ensure!(helped.insert(name.to_owned()), "two helps of {name}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').context("no type")?;
            ensure!(helped.contains(name), "{name} has no help");
            ensure!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "two types of {name}");
            ensure!(kind != "counter" || name.ends_with("_total") != is_open_metrics, "the name of {name}");
            name.clone_into(&mut current);
        } else if !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').context("no value")?;
            ensure!(samples.insert(series.to_owned()), "two samples of {series}");
            ensure!(value.parse::<f64>().is_ok(), "{line}");
            let name = series.split('{').next().unwrap_or_default();
            let suffixes: &[&str] = match kinds.get(&current).map(String::as_str) {
                Some("histogram") => &["_bucket", "_sum", "_count"],
                Some("counter") if is_open_metrics => &["_total"],
                _ => &[""],
            };
            let belongs = name.strip_prefix(current.as_str()).is_some_and(|suffix| suffixes.contains(&suffix));
            ensure!(belongs, "{name} among the samples of {current}");
        }
    }
    Ok(kinds)
}

#[test]
fn metrics_are_served_in_the_format_that_is_asked_for_op_07() -> Result<()> {
    with_server(async |server| {
        server.sign_in("ann@acme.test", "read").await?;
        for accept in [None, Some("*/*"), Some("text/plain;version=0.0.4")] {
            let response = scrape(server, accept).await?;
            assert_eq!(response.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
            ensure!(!response.text.contains("# EOF") && !response.text.contains("# UNIT"), "that is OpenMetrics");
            let kinds = check_families(&response.text, false)?;
            assert_eq!(kinds.get("service_requests_total").map(String::as_str), Some("counter"));
            assert_eq!(kinds.get("service_request_seconds").map(String::as_str), Some("histogram"));
        }
        let response = scrape(server, Some(PROMETHEUS)).await?;
        let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        assert_eq!(response.header("content-type"), Some(media_type));
        ensure!(response.text.ends_with("# EOF\n"), "the end is missing");
        let kinds = check_families(&response.text, true)?;
        assert_eq!(kinds.get("service_requests").map(String::as_str), Some("counter"));
        Ok(())
    })
}

#[test]
fn counters_with_labels_begin_at_zero_op_07() -> Result<()> {
    with_server(async |server| {
        let text = scrape(server, None).await?.text;
        for series in [
            r#"service_refreshes_total{outcome="replayed"}"#,
            r#"service_requests_total{route="/oauth/token",status="500"}"#,
            r#"service_requests_total{route="unmatched",status="503"}"#,
            r#"service_mcp_tool_calls_total{tool="whoami",outcome="failed"}"#,
            r#"service_provider_requests_total{request="token",outcome="timeout"}"#,
            r#"service_domain_checks_total{outcome="unanswered"}"#,
            r#"service_sso_sign_ins_total{outcome="account_disabled"}"#,
            r#"service_sso_logouts_total{outcome="refused"}"#,
            r#"service_trace_spans_total{outcome="dropped"}"#,
        ] {
            ensure!(text.contains(&format!("{series} 0\n")), "{series} does not begin at 0");
        }
        // No counter waits for its first event.
        let kinds = check_families(&text, false)?;
        for (name, _) in kinds.iter().filter(|(_, kind)| *kind == "counter") {
            ensure!(text.lines().any(|line| line.starts_with(name.as_str())), "{name} has no sample");
        }
        Ok(())
    })
}

/// The value of a series.
fn value(text: &str, series: &str) -> Result<f64> {
    let found = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    Ok(found.with_context(|| format!("no {series}"))?.parse()?)
}

#[test]
fn a_revocation_is_measured_where_it_arrives() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let other = Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), &server.settings, &server.leaks)?;
        let count = async || value(&other.ops.get("/metrics", None).await?.text, "service_revocation_seconds_count");
        assert!(count().await?.abs() < f64::EPSILON, "what a node reads when it starts is not measured");
        let request = server.http.request(Method::DELETE, &format!("/v1/sessions/{}", ann.grant_id));
        assert_eq!(server.http.send(request.bearer_auth(&ann.access_token)).await?.status, 204);
        let began = Instant::now();
        while count().await? < 1.0 {
            ensure!(began.elapsed() < Duration::from_secs(10), "the revocation is not measured");
        }
        let text = other.ops.get("/metrics", None).await?.text;
        let seconds = value(&text, "service_revocation_seconds_sum")?;
        ensure!((0.0..5.0).contains(&seconds), "it took {seconds} s");
        Ok(())
    })
}

#[test]
fn a_node_measures_itself_its_limits_and_its_database() -> Result<()> {
    let setup = Setup::default().on_system_clock().set("limits.otp_sends_per_address", "1/86400");
    setup.run(async |server| {
        // Three codes without a known device: the second is beyond the limit.
        let body = json!({ "email": "ann@acme.test" });
        for _ in 0..3 {
            server.http.post("/v1/otp-tokens", &body).await?;
        }
        let app = App::new(config(&server.settings)?, Clock::System)?;
        let queued = random::uuid(server.now() - Duration::from_secs(90))?;
        let row = format!(
            "insert into outbox (id, shard, sealed, attempts, next_attempt_at, drop_at)
             values ('{queued}', 0, '', 1, now() + interval '1 minute', 'infinity')"
        );
        server.sql(&row).await?;
        measurements::measure(&app).await?;
        server.sql(&format!("delete from outbox where id = '{queued}' and shard = 0")).await?;
        let text = app.metrics.render_prometheus();
        assert!(value(&text, "service_mails_waiting")? >= 1.0);
        let age = value(&text, "service_mails_waiting_age_seconds")?;
        ensure!((90.0..120.0).contains(&age), "the oldest mail waits for {age} s");
        for table in ["grants", "audit_events", "outbox"] {
            let bytes = value(&text, &format!("service_table_bytes{{table=\"{table}\"}}"))?;
            ensure!(bytes > 8_000.0, "{table} has {bytes} bytes");
        }
        ensure!(!text.contains("table=\"audit_events_2"), "a partition is counted as a table");
        ensure!(value(&text, "process_resident_memory_bytes")? > 1e6 && value(&text, "process_open_fds")? > 3.0);
        ensure!(value(&text, "service_database_wait_seconds_count")? >= 1.0);

        let text = scrape(server, None).await?.text;
        let refused = value(&text, "service_limit_refusals_total{limit=\"otp-address\"}")?;
        ensure!(refused >= 1.0, "no refusal is counted");
        assert!((value(&text, "service_ready")? - 1.0).abs() < f64::EPSILON);
        ensure!(value(&text, "service_signing_keys_age_seconds")? < 60.0);
        let version = format!("service_build_info{{version=\"{}\",", env!("CARGO_PKG_VERSION"));
        ensure!(text.lines().any(|line| line.starts_with(&version) && line.ends_with(" 1")), "no version");
        Ok(())
    })
}
