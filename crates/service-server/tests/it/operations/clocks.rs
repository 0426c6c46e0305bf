//! A node whose clock is wrong: it does nothing by it, loses nothing, and is well again when the clock is.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use reqwest::Method;
use serde_json::json;
use service_server::flows::operator::Operator;
use service_server::{
    clock::Clock,
    flows::{revocation, rotate_signing_keys},
    tasks::housekeeping,
};
use service_testkit::{
    response::TestResponse,
    server::{Setup, TestServer},
};

use crate::support::refresh::{check_refused, column, refreshed};

#[track_caller]
fn check_unavailable(response: &TestResponse) {
    assert_eq!((response.status.as_u16(), response.error()), (503, "temporarily_unavailable"), "{}", response.text);
}

/// Waits until the node says so of itself.
async fn until_ready(server: &TestServer, ready: bool) -> Result<()> {
    let began = Instant::now();
    while (server.ops.get("/readyz", None).await?.status == 200) != ready {
        ensure!(began.elapsed() < Duration::from_secs(5), "it does not notice");
    }
    Ok(())
}

#[test]
fn a_node_whose_clock_is_wrong_does_nothing_by_it_and_loses_nothing() -> Result<()> {
    Setup::default().on_clock(Clock::that_goes_wrong()).run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let ended = server.sign_in("bob@acme.test", "read write").await?;
        let (otp_id, code) = server.request_code("eve@acme.test").await?;
        let path = format!("/v1/sessions/{}", ended.grant_id);
        let end = || server.http.request(Method::DELETE, &path).bearer_auth(&ended.access_token);
        assert_eq!(server.http.send(end()).await?.status, 204);
        let before = column(server, ann.grant_id, "grants.*::text || xmin::text").await?;
        let whoami = async |token: &str| server.http.get("/v1/whoami", Some(token)).await;

        for off in [31 * 86_400, -31 * 86_400, 7_200, -7_200, 11, -11] {
            server.advance(off);
            until_ready(server, false).await?;
            assert!(server.ops.get("/readyz", None).await?.text.contains("clock"));
            check_unavailable(&whoami(&ann.access_token).await?);
            check_unavailable(&server.refresh(&ann.refresh_token).await?);
            check_unavailable(&server.exchange(&otp_id, &code, "read").await?);
            assert!(revocation::bump_epoch(&server.app, &Operator::default()).await.is_err());
            assert!(housekeeping::clean_once(&server.app).await.is_err());
            server.advance(-off);
            until_ready(server, true).await?;
            let response = whoami(&ended.access_token).await?;
            assert_eq!((response.status.as_u16(), response.error()), (401, "invalid_token"), "back to life, {off}");
        }
        assert_eq!(column(server, ann.grant_id, "grants.*::text || xmin::text").await?, before);
        assert_eq!(
            server.sql("select attempts from otps where address = 'eve@acme.test'").await?.as_deref(),
            Some("0")
        );
        assert_eq!(server.sql("select count(*) from revocations").await?.as_deref(), Some("1"));
        check_refused(&server.refresh(&ended.refresh_token).await?, Some("revoked_by_user"));
        assert_eq!(server.exchange(&otp_id, &code, "read").await?.status, 200);
        refreshed(server, &ann.refresh_token).await.map(drop)
    })
}

#[test]
fn a_node_whose_clock_is_wrong_sends_no_codes_and_makes_no_keys_rv_37() -> Result<()> {
    Setup::default().on_clock(Clock::that_goes_wrong()).run(async |server| {
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        let counted = "select (select count(*) from otps) || ' ' || (select count(*) from recent_hits) || ' '
                       || (select max(created_at) from otps) || ' ' || (select count(*) from signing_keys)";
        let before = server.sql(counted).await?;
        for off in [31 * 86_400, -31 * 86_400, 11, -11] {
            // At once, before the node has looked at its clock by itself.
            server.advance(off);
            check_unavailable(&server.http.post("/v1/otp-tokens", &json!({ "email": "ann@acme.test" })).await?);
            check_unavailable(&server.exchange(&otp_id, &code, "read").await?);
            assert!(rotate_signing_keys::rotate(&server.app).await.is_err());
            if off > 30 * 86_400 {
                assert!(rotate_signing_keys::rotate_if_due(&server.app).await.is_err());
            }
            assert_eq!(server.sql(counted).await?, before);
            server.advance(-off);
            until_ready(server, true).await?;
        }
        rotate_signing_keys::rotate(&server.app).await?;
        assert_eq!(server.exchange(&otp_id, &code, "read").await?.status, 200);
        Ok(())
    })
}
