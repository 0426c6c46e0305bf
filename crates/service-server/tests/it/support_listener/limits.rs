//! What bounds the calls of the support listener: for a client on all nodes, and for a certificate before authentication.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use service_server::http::support::calls::SupportCall;
use service_testkit::server::{Setup, TestServer};

use crate::support::{
    authority::Authority,
    support_tool::{SupportResponse, SupportTool, http, send, url, with_listener},
};

const FIND: &str = "/v1/user/find";

fn ann() -> Value {
    json!({ "whom": "ann@acme.test" })
}

/// Checks a response that says when to try again.
fn check_limited(response: &SupportResponse, policy: &str) -> Result<()> {
    ensure!(response.error() == (429, "rate_limited"), "{} {}", response.status, response.body);
    let header = |name: &str| response.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    ensure!(header("retry-after").parse::<u32>()? > 0, "{:?}", response.headers);
    ensure!(header("ratelimit-policy").contains(policy), "{:?}", response.headers);
    let text = response.body["error_description"].as_str().context("no text")?;
    ensure!(text.contains("Try again in"), "{text}");
    Ok(())
}

#[test]
fn a_client_makes_120_calls_and_then_two_a_second() -> Result<()> {
    let authority = Authority::new()?;
    with_listener(Setup::default(), &authority)?.run(async |server| {
        server.sign_in("ann@acme.test", "read").await?;
        let (tool, second) =
            (SupportTool::register(server, &authority).await?, SupportTool::register(server, &authority).await?);
        for call in 0..120 {
            assert_eq!(tool.call(server, FIND, &ann()).await?.status, 200, "call {call}");
        }
        check_limited(&tool.call(server, FIND, &ann()).await?, "support-calls")?;
        assert_eq!(second.call(server, FIND, &ann()).await?.status, 200, "another client");
        server.advance(1);
        assert_eq!(tool.call(server, FIND, &ann()).await?.status, 200);
        Ok(())
    })
}

#[test]
fn a_client_makes_20_changes_and_then_one_every_three_seconds() -> Result<()> {
    let authority = Authority::new()?;
    with_listener(Setup::default(), &authority)?.run(async |server| {
        let tool = SupportTool::register(server, &authority).await?;
        let changes: Vec<_> =
            SupportCall::ALL.into_iter().filter(|call| call.changes()).map(SupportCall::path).collect();
        assert_eq!(changes, ["/v1/session/revoke", "/v1/limit/reset", "/v1/mail/resend"]);
        // They share one limit. A change that finds nothing counts too.
        for path in changes.iter().cycle().take(20) {
            let fields = match *path {
                "/v1/session/revoke" => json!({ "id": "grant_01m955vw00fjqrz47smcqrkmzz" }),
                "/v1/limit/reset" => ann(),
                _ => json!({ "all": true }),
            };
            let status = tool.call(server, path, &fields).await?.status;
            assert!([200, 404].contains(&status), "{path}: {status}");
        }
        check_limited(&tool.call(server, "/v1/limit/reset", &ann()).await?, "support-changes")?;
        assert_eq!(tool.call(server, "/v1/limit/show", &ann()).await?.status, 200, "what changes nothing");
        server.advance(3);
        assert_eq!(tool.call(server, "/v1/limit/reset", &ann()).await?.status, 200);
        Ok(())
    })
}

/// The number of calls that the node counted with this outcome.
async fn counted(server: &TestServer, outcome: &str) -> Result<u32> {
    let metrics = server.ops.get("/metrics", None).await?.text;
    let line = format!("service_support_calls_total{{call=\"user_find\",outcome=\"{outcome}\"}} ");
    Ok(metrics.lines().find_map(|text| text.strip_prefix(&line)).context("not counted")?.parse()?)
}

#[test]
fn a_certificate_alone_costs_a_node_a_bounded_number_of_signatures() -> Result<()> {
    let authority = Authority::new()?;
    with_listener(Setup::default(), &authority)?.run(async |server| {
        server.sign_in("ann@acme.test", "read").await?;
        let tool = SupportTool::register(server, &authority).await?;
        let mut body = tool.body(server, &ann())?;
        body["client_assertion"] = "eyJhbGciOiJFUzI1NiJ9.e30.AAAA".into();
        for attempt in 0..240 {
            assert_eq!(tool.send(server, FIND, &body).await?.status, 401, "attempt {attempt}");
        }
        check_limited(&tool.send(server, FIND, &body).await?, "support-attempts")?;
        assert_eq!((counted(server, "unauthenticated").await?, counted(server, "limited").await?), (240, 1));
        // Refused calls are in the log and in the metric, and not in the audit log.
        let sql = "select count(*) from audit_events where details ? 'operatorClient'";
        assert_eq!(server.sql(sql).await?.as_deref(), Some("0"));
        // Another certificate has room, and so has this one a moment later.
        let other = http(&authority, Some((&authority, "other")))?;
        assert_eq!(send(&other, &url(server)?, FIND, &tool.body(server, &ann())?).await?.status, 200);
        server.advance(1);
        assert_eq!(tool.call(server, FIND, &ann()).await?.status, 200);
        Ok(())
    })
}

#[test]
fn calls_that_come_together_wait_for_each_other() -> Result<()> {
    let authority = Authority::new()?;
    with_listener(Setup::default(), &authority)?.run(async |server| {
        server.sign_in("ann@acme.test", "read").await?;
        let tool = SupportTool::register(server, &authority).await?;
        let (fields, calls) = (ann(), 0..12);
        let calls = calls.map(|_| tool.call(server, "/v1/user/show", &fields));
        for response in futures_util::future::try_join_all(calls).await? {
            ensure!(response.status == 200, "{} {}", response.status, response.body);
        }
        Ok(())
    })
}

#[test]
fn a_large_body_is_refused_before_it_is_read() -> Result<()> {
    let authority = Authority::new()?;
    with_listener(Setup::default(), &authority)?.run(async |server| {
        let tool = SupportTool::register(server, &authority).await?;
        let body = tool.body(server, &json!({ "whom": "x".repeat(16 * 1024) }))?;
        assert_eq!(tool.send(server, FIND, &body).await?.error(), (413, "payload_too_large"));
        for (fields, status) in [
            (json!({ "whom": "4711" }), 422),
            (json!({}), 422),
            (json!({ "whom": "ann@acme.test", "limit": 1 }), 400),
            (json!({ "whom": 4711 }), 400),
            (json!({ "whom": "bob@acme.test" }), 404),
        ] {
            let response = tool.call(server, FIND, &fields).await?;
            ensure!(response.status == status, "{fields}: {} {}", response.status, response.body);
            ensure!(
                response.body["error_description"].is_string() && response.body["request_id"].is_string(),
                "{}",
                response.body
            );
        }
        let request = tool.http.post(format!("{}{FIND}?whom=ann", url(server)?));
        assert_eq!(request.json(&tool.body(server, &ann())?).send().await?.status(), 400);
        Ok(())
    })
}
