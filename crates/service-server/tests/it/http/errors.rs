//! The one shape of every refusal, and what the public listener does not show.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use service_api::{errors::ErrorBody, oauth::OTP_GRANT};
use service_testkit::{
    response::TestResponse,
    server::{Setup, TestServer, otp_exchange, with_server},
};

/// Words of the machinery, none of which is a caller's business.
const MACHINERY: [&str; 19] = [
    "select ",
    "insert ",
    "update ",
    "relation",
    "postgres",
    "sql",
    "42p01",
    "column",
    "constraint",
    "panic",
    ".rs",
    "src/",
    "serde",
    "axum",
    "hyper",
    "tokio",
    "thread",
    "127.0.0.1",
    "null",
];

fn holds_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(holds_null),
        Value::Object(fields) => fields.values().any(holds_null),
        _ => false,
    }
}

fn check_shape(name: &str, response: &TestResponse) -> Result<()> {
    let text = &response.text;
    let body: ErrorBody = serde_json::from_str(text).with_context(|| format!("{name}: not an error: {text}"))?;
    let fields: BTreeSet<_> = response.body.as_object().context("no object")?.keys().map(String::as_str).collect();
    let known = BTreeSet::from(["error", "error_description", "request_id", "details"]);
    ensure!(fields.is_subset(&known) && !holds_null(&response.body), "{name}: {text}");
    let sentence = &body.error_description;
    ensure!(
        sentence.len() > 10 && sentence.ends_with('.') && sentence.starts_with(char::is_alphabetic),
        "{name}: {text}"
    );
    let shown = text.to_lowercase();
    ensure!(MACHINERY.iter().all(|word| !shown.contains(word)), "{name} shows machinery: {text}");
    ensure!(response.header("x-request-id") == Some(&body.request_id), "{name}: another id than in its header");
    for (header, value) in
        [("content-type", "application/json"), ("x-content-type-options", "nosniff"), ("cache-control", "no-store")]
    {
        ensure!(response.header(header) == Some(value), "{name}: {header} is {:?}", response.header(header));
    }
    for header in ["server", "x-powered-by", "set-cookie", "location", "access-control-allow-origin"] {
        ensure!(response.header(header).is_none(), "{name} has the header {header}");
    }
    let needs = match response.status.as_u16() {
        401 => "www-authenticate",
        405 => "allow",
        429 | 503 => "retry-after",
        413 => "connection",
        _ => return Ok(()),
    };
    let value = response.header(needs).with_context(|| format!("{name} lacks the header {needs}"))?;
    ensure!(needs != "retry-after" || value.parse::<u32>().is_ok_and(|seconds| seconds > 0), "{name}: {needs} {value}");
    Ok(())
}

/// A request for each way to be refused, by what it must be refused with.
async fn refused_requests(server: &TestServer) -> Result<Vec<(&'static str, u16, RequestBuilder)>> {
    let ann = server.sign_in("ann@acme.test", "workspaces:read").await?;
    let bob = server.sign_in("bob@acme.test", "read").await?;
    let old = server.app.signing_keys.sign(&expired(server, &bob.access_token)?, server.now())?;
    let get = |path: &str| server.http.request(Method::GET, path);
    let as_bob = |path: &str| get(path).bearer_auth(&bob.access_token);
    let post = |path: &str, body: Value| server.http.request(Method::POST, path).json(&body);
    let token = |more: Value| {
        let mut body = otp_exchange("otp_00000000000000000000000000", "00000000", "read");
        body.as_object_mut().into_iter().for_each(|all| all.extend(more.as_object().cloned().unwrap_or_default()));
        post("/oauth/token", body)
    };
    let long = "a".repeat(9_000);
    Ok(vec![
        ("invalid_request", 400, post("/v1/otp-tokens", json!([]))),
        ("validation_failed", 422, post("/v1/otp-tokens", json!({}))),
        ("invalid_request", 400, post("/v1/otp-tokens", json!({ "email": 1 }))),
        ("invalid_request", 400, post("/v1/otp-tokens", json!({ "email": "unknown" }))),
        ("invalid_request", 400, post("/v1/login-options", json!({ "email": "a@acme.test", "unknown": 1 }))),
        ("invalid_request", 400, post("/v1/login-options?email=a@acme.test", json!({}))),
        ("invalid_request", 400, as_bob("/v1/projects?limit=0")),
        ("invalid_request", 400, as_bob("/v1/projects?cursor=forged")),
        ("invalid_request", 400, as_bob("/v1/projects?workspaceId=x")),
        ("invalid_request", 400, as_bob("/v1/projects?limit=1&limit=1")),
        ("invalid_request", 400, as_bob("/v1/projects?unknown=1")),
        ("invalid_request", 400, get("/v1/whoami").header("authorization", "Bearer a b")),
        ("invalid_request", 400, post("/oauth/token", json!({}))),
        ("invalid_request", 400, post("/oauth/token", json!({ "grant_type": OTP_GRANT }))),
        ("invalid_request", 400, token(json!({ "workspace_id": "x" }))),
        ("unsupported_grant_type", 400, token(json!({ "grant_type": "password" }))),
        ("unauthorized_client", 400, token(json!({ "client_id": "service-mcp" }))),
        ("invalid_scope", 400, token(json!({ "scope": "nothing" }))),
        ("invalid_target", 400, token(json!({ "resource": "https://elsewhere.test" }))),
        ("invalid_grant", 400, token(json!({}))),
        ("invalid_client", 401, token(json!({ "client_id": "unknown" }))),
        ("missing_token", 401, get("/v1/whoami")),
        ("invalid_token", 401, get("/v1/whoami").bearer_auth("nonsense")),
        ("invalid_token", 401, get("/v1/whoami").bearer_auth(old.expose())),
        ("insufficient_scope", 403, get("/v1/projects").bearer_auth(&ann.access_token)),
        ("not_found", 404, get("/nowhere")),
        ("not_found", 404, as_bob("/v1/whoami?workspaceId=wsp_00000000000000000000000000")),
        ("method_not_allowed", 405, get("/oauth/token")),
        ("payload_too_large", 413, post("/oauth/token", json!({ "code": "1".repeat(70_000) }))),
        ("uri_too_long", 414, get(&format!("/{long}"))),
        ("unsupported_media_type", 415, server.http.request(Method::POST, "/oauth/token").body("{}")),
        ("rate_limited", 429, post("/v1/otp-tokens", json!({ "email": "ann@acme.test" }))),
        ("headers_too_large", 431, get("/v1/whoami").header("x-filler", long.repeat(2))),
    ])
}

fn expired(server: &TestServer, token: &str) -> Result<service_rules::bearer::Claims> {
    let payload = token.split('.').nth(1).context("no JWT")?;
    let payload = base64::Engine::decode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, payload)?;
    let mut claims: service_rules::bearer::Claims = serde_json::from_slice(&payload)?;
    (claims.iat, claims.exp) = (server.now().as_second() - 7_200, server.now().as_second() - 3_600);
    Ok(claims)
}

#[test]
fn every_refusal_has_one_shape_ht_11_ht_15() -> Result<()> {
    Setup::default().set("limits.otp_sends_per_context", "1/60").run(async |server| {
        for (place, (error, status, request)) in refused_requests(server).await?.into_iter().enumerate() {
            let response = server.http.send(request).await?;
            assert_eq!(
                (response.status.as_u16(), response.error()),
                (status, error),
                "request {place}: {}",
                response.text
            );
            check_shape(&format!("request {place}"), &response)?;
        }
        Ok(())
    })
}

#[test]
fn a_defect_is_told_in_general_terms_ht_15() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        server
            .sql("alter table contents rename to hidden; delete from users; alter table otps drop column mac")
            .await?;
        let asks = [server.http.get("/v1/projects", Some(&ann.access_token)).await?];
        let asks = asks.into_iter().chain([
            server.http.get("/v1/whoami", Some(&ann.access_token)).await?,
            server.http.post("/v1/otp-tokens", &json!({ "email": "bob@acme.test" })).await?,
        ]);
        for response in asks {
            assert_eq!((response.status.as_u16(), response.error()), (500, "server_error"), "{}", response.text);
            check_shape("a defect", &response)?;
        }
        assert_eq!(server.http.post("/v1/login-options", &json!({ "email": "a@acme.test" })).await?.status, 200);
        Ok(())
    })
}

#[test]
fn operations_are_not_on_the_public_listener_ht_14() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("canary@acme.test", "read").await?;
        assert_eq!(server.http.get("/v1/whoami?workspaceId=personal", Some(&ann.access_token)).await?.status, 200);
        for path in
            ["/metrics", "/healthz", "/readyz", "/debug", "/debug/pprof", "/v1/metrics", "/admin", "/metrics?a=b"]
        {
            for token in [None, Some(ann.access_token.as_str())] {
                let response = server.http.get(path, token).await?;
                assert_eq!((response.status.as_u16(), response.error()), (404, "not_found"), "{path}");
            }
        }
        assert_eq!(server.ops.get("/healthz", None).await?.status, 200);
        assert_eq!(server.ops.get("/readyz", None).await?.status, 200);
        assert_eq!(server.ops.get("/v1/whoami", Some(&ann.access_token)).await?.status, 404);
        let metrics = server.ops.get("/metrics", None).await?;
        assert_eq!(metrics.status, 200);
        assert!(
            metrics.text.contains("service_requests_total{route=\"/v1/whoami\",status=\"200\"}"),
            "{}",
            metrics.text
        );
        // Names of tables look like the beginnings of ids.
        let others: Vec<_> = metrics.text.lines().filter(|line| !line.starts_with("service_table_")).collect();
        let others = others.join("\n");
        for told in
            ["canary", "acme", "@", "user_", "grant_", "otp_0", "req_", "wsp_", "127.0.0.1", "personal", "eyJ", "svc_"]
        {
            assert!(!others.contains(told), "metrics hold {told}");
        }
        let is_table = |line: &str| {
            line.split('"').nth(1).is_some_and(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        };
        assert!(metrics.text.lines().filter(|line| line.starts_with("service_table_")).all(is_table));
        server.leaks.assert_clean("metrics", metrics.text.as_bytes());
        Ok(())
    })
}
