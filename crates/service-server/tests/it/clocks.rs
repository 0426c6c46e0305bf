//! A node whose clock is wrong: it does nothing by it, loses nothing, and is well again when the clock is.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use reqwest::Method;
use service_server::{clock::Clock, flows::end_access, housekeeping};
use service_testkit::{
    answer::Answer,
    server::{Setup, TestServer},
};

use crate::refresh::{check_refused, column, refreshed};

#[track_caller]
fn check_unavailable(answer: &Answer) {
    assert_eq!((answer.status.as_u16(), answer.error()), (503, "temporarily_unavailable"), "{}", answer.text);
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
        let end = || server.door.request(Method::DELETE, &path).bearer_auth(&ended.access_token);
        assert_eq!(server.door.send(end()).await?.status, 204);
        let before = column(server, ann.grant_id, "grants.*::text || xmin::text").await?;
        let whoami = async |token: &str| server.door.get("/v1/whoami", Some(token)).await;

        for off in [31 * 86_400, -31 * 86_400, 7_200, -7_200, 11, -11] {
            server.advance(off);
            until_ready(server, false).await?;
            assert!(server.ops.get("/readyz", None).await?.text.contains("clock"));
            check_unavailable(&whoami(&ann.access_token).await?);
            check_unavailable(&server.refresh(&ann.refresh_token).await?);
            check_unavailable(&server.exchange(&otp_id, &code, "read").await?);
            assert!(end_access::bump_epoch(&server.app).await.is_err());
            assert!(housekeeping::clean_once(&server.app).await.is_err());
            server.advance(-off);
            until_ready(server, true).await?;
            let answer = whoami(&ended.access_token).await?;
            assert_eq!((answer.status.as_u16(), answer.error()), (401, "invalid_token"), "back to life, {off}");
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
