//! Requesting and trying one-time codes.

use anyhow::{Context as _, Result};
use serde_json::json;
use service_testkit::{response::TestResponse, server::TestServer};

/// As many codes to one address as a test wants.
pub(crate) const ROOMY: &str = "1000/60";

pub(crate) async fn ask(server: &TestServer, email: &str) -> Result<TestResponse> {
    server.http.post("/v1/otp-tokens", &json!({ "email": email })).await
}

/// A code that differs from this one; every step gives another.
pub(crate) fn wrong(code: &str, step: u32) -> Result<String> {
    Ok(format!("{:08}", (code.parse::<u32>()? + step) % 100_000_000))
}

pub(crate) async fn count(server: &TestServer, what: &str) -> Result<i64> {
    let counted = server.sql(&format!("select count(*) from {what}")).await?;
    Ok(counted.context("nothing was counted")?.parse()?)
}

/// What every refusal has, whatever it refuses.
#[track_caller]
pub(crate) fn assert_refused(response: &TestResponse, status: u16, error: &str) {
    assert_eq!((response.status.as_u16(), response.error()), (status, error));
    assert_eq!(response.header("cache-control"), Some("no-store"));
    assert!(response.header("x-request-id").is_some_and(|id| id == response.field("request_id")));
    assert!(response.field("error_description").ends_with('.'));
    let fields: Vec<&str> = response.body.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    assert_eq!(fields, ["error", "error_description", "request_id"]);
}

/// A 429 that says which policy was hit and for how long, in all three headers; returns for how long.
#[track_caller]
pub(crate) fn assert_limited(response: &TestResponse, policy: &str, quota: u32, window: u32) -> i64 {
    assert_refused(response, 429, "rate_limited");
    let retry_after = response.header("retry-after").unwrap_or_default();
    assert!(retry_after.bytes().all(|byte| byte.is_ascii_digit()), "{retry_after}");
    let expected = format!("\"{policy}\";q={quota};w={window}");
    assert_eq!(response.header("ratelimit-policy"), Some(expected.as_str()));
    let expected = format!("\"{policy}\";r=0;t={retry_after}");
    assert_eq!(response.header("ratelimit"), Some(expected.as_str()));
    retry_after.parse().unwrap_or_default()
}
