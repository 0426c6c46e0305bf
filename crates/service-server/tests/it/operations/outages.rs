//! The database is away, or does not answer: everything that needs it is 503, and nothing is lost.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use futures_util::future::try_join_all;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use service_testkit::{
    postgres::{Cluster, Stop},
    process::Process,
    response::{TestClient, TestResponse},
    server::{Setup, fresh_database, otp_exchange, request_code, signed_in},
};
use tokio_postgres::NoTls;

/// So short that no copy of the keys is young enough to tell that a key id is made up.
const LEAD: &str = "0.001";

/// The token as if another key had signed it, one that this node has not seen yet.
fn by_another_key(token: &str) -> Result<String> {
    let (header, rest) = token.split_once('.').context("no JWT")?;
    let mut header: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(header)?)?;
    let kid: String = header["kid"].as_str().context("no key id")?.chars().rev().collect();
    header["kid"] = kid.into();
    Ok(format!("{}.{rest}", BASE64_URL_SAFE_NO_PAD.encode(header.to_string())))
}

/// Every kind of request that cannot be answered without the database.
fn that_need_the_database(http: &TestClient, token: &str, otp_id: &str, code: &str) -> Result<Vec<RequestBuilder>> {
    let get = |path: &str| http.request(Method::GET, path).bearer_auth(token);
    let post = |path: &str, body: Value| http.request(Method::POST, path).json(&body);
    Ok(vec![
        post("/v1/login-options", json!({ "email": "eve@acme.test" })),
        post("/v1/otp-tokens", json!({ "email": "eve@acme.test" })),
        post("/oauth/token", otp_exchange(otp_id, code, "read")),
        post("/oauth/token", otp_exchange(otp_id, "00000000", "read")),
        get("/v1/whoami"),
        get("/v1/projects"),
        get("/v1/whoami?workspaceId=wsp_00000000000000000000000000"),
        http.request(Method::GET, "/v1/whoami").bearer_auth(by_another_key(token)?),
    ])
}

/// Neither 401 nor `invalid_grant`: on those a client throws its credentials away.
fn check_unavailable(response: &TestResponse) -> Result<()> {
    let told = (response.status.as_u16(), response.error());
    ensure!(told == (503, "temporarily_unavailable"), "{}", response.text);
    let retry = response.header("retry-after").and_then(|text| text.parse::<u32>().ok());
    ensure!(retry.is_some_and(|seconds| seconds > 0), "Retry-After is {:?}", response.header("retry-after"));
    Ok(())
}

async fn check_all_unavailable(http: &TestClient, requests: Vec<RequestBuilder>) -> Result<()> {
    let check = async |(place, request)| -> Result<()> {
        let asked = Instant::now();
        let response = http.send(request).await?;
        ensure!(asked.elapsed() < Duration::from_secs(4), "request {place} took {:?}", asked.elapsed());
        check_unavailable(&response).with_context(|| format!("request {place}"))
    };
    try_join_all(requests.into_iter().enumerate().map(check)).await.map(drop)
}

#[test]
fn a_database_that_does_not_answer_is_503_ht_15() -> Result<()> {
    Setup::default().set("keys.publish_lead_seconds", LEAD).run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let code = server.request_code("bob@acme.test").await?;
        let held = server.app.database.begin().await?;
        let tables = "clients, otps, rates, recent_hits, users, contents, memberships, outbox, signing_keys";
        held.execute(&format!("lock table {tables} in access exclusive mode"), &[]).await?;
        let requests = that_need_the_database(&server.http, &ann.access_token, &code.0, &code.1)?;
        check_all_unavailable(&server.http, requests).await?;
        // A lock is no reason to take the node away: another would have to wait for it too.
        assert_eq!(server.ops.get("/readyz", None).await?.status, 200);
        assert_eq!(server.ops.get("/healthz", None).await?.status, 200);
        drop(held);
        assert_eq!(server.http.get("/v1/whoami", Some(&ann.access_token)).await?.status, 200);
        assert_eq!(server.exchange(&code.0, &code.1, "read").await?.status, 200);
        assert_eq!(server.ops.get("/readyz", None).await?.status, 200);
        Ok(())
    })
}

/// Ends the database while a request waits for it; what the request is told.
async fn end_under_way(
    cluster: &Cluster,
    database: &str,
    request: impl Future<Output = Result<TestResponse>>,
) -> Result<TestResponse> {
    let (client, connection) = tokio_postgres::connect(&cluster.url(database), NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute("begin; lock table otps in access exclusive mode").await?;
    let end = async {
        while client.query("select from pg_locks where not granted", &[]).await?.is_empty() {}
        cluster.stop(Stop::Immediate)
    };
    let (response, ()) = tokio::try_join!(request, end)?;
    Ok(response)
}

#[test]
fn a_node_outlives_its_database_and_recovers_by_itself_ht_15() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let cluster = Cluster::start()?;
        let database = fresh_database(&cluster).await?;
        let mut settings = server.settings.clone();
        settings.set("database.url", &cluster.service_url(&database));
        settings.set("keys.publish_lead_seconds", LEAD);
        let mut node = Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), &settings, &server.leaks)?;
        let http = node.http.clone();
        let ask = async |email| request_code(&http, &server.mailbox, &server.leaks, email).await;
        let (otp_id, code) = ask("ann@acme.test").await?;
        let ann = signed_in(&http.post("/oauth/token", &otp_exchange(&otp_id, &code, "read")).await?)?;
        let waiting = ask("bob@acme.test").await?;
        let exchange = otp_exchange(&waiting.0, &waiting.1, "read");

        check_unavailable(&end_under_way(&cluster, &database, http.post("/oauth/token", &exchange)).await?)?;
        for how in [Stop::Immediate, Stop::Fast] {
            cluster.stop(how)?;
            check_all_unavailable(&http, that_need_the_database(&http, &ann.access_token, &waiting.0, &waiting.1)?)
                .await?;
            assert_eq!(http.get("/.well-known/jwks.json", None).await?.status, 200);
            assert_eq!(http.get("/v1/whoami", None).await?.status, 401);
            // All nodes are without the database now. If they were not ready, a load balancer would have none left.
            let ready = node.ops.get("/readyz", None).await?;
            assert_eq!(
                (ready.status.as_u16(), ready.text.as_str()),
                (200, "ready, but the database does not answer\n")
            );
            assert_eq!(node.ops.get("/healthz", None).await?.status, 200);
            cluster.resume()?;
            assert_eq!(node.ops.get("/readyz", None).await?.status, 200);
            assert_eq!(http.get("/v1/projects", Some(&ann.access_token)).await?.status, 200);
        }
        let response = http.post("/oauth/token", &exchange).await?;
        assert_eq!(response.status, 200, "{}", response.error());
        server.leaks.assert_clean("the node's log", &node.log());
        assert_eq!(node.terminate()?, Some(0));
        Ok(())
    })
}
