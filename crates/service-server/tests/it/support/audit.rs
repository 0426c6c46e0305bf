//! Causing, sealing and verifying audit events.

use anyhow::{Result, ensure};
use service_server::{app::App, flows::audit::verification, tasks::housekeeping};
use service_testkit::server::{Setup, TestServer};
use std::time::{Duration, Instant};

pub(crate) async fn problems(app: &App) -> Result<Vec<String>> {
    Ok(verification::verify(app, None, |_| {}).await?.problems)
}

/// Seals everything that was recorded so far, once all transactions have ended: also those of other tests, because a
/// server numbers the transactions of all its databases.
pub(crate) async fn seal(server: &TestServer) -> Result<()> {
    let ended = "select pg_snapshot_xmin(pg_current_snapshot())::text::bigint > max(written_by) from audit_events
                  where numbering = (select numbering from audit_numbering)";
    let unsealed = "select count(*) - coalesce((select sum(events) from audit_seals), 0) from audit_events";
    let began = Instant::now();
    while server.sql(unsealed).await?.as_deref() != Some("0") {
        ensure!(began.elapsed() < Duration::from_secs(30), "some transaction does not end");
        if server.sql(ended).await?.as_deref() == Some("t") {
            // Does nothing while the node is beginning a month.
            housekeeping::seal_all(&server.app).await?;
        }
    }
    Ok(())
}

/// Something that is recorded.
pub(crate) async fn happen(server: &TestServer, number: usize) -> Result<()> {
    let body = serde_json::json!({ "email": format!("user{number}@acme.test") });
    let response = server.http.post("/v1/otp-tokens", &body).await?;
    ensure!(response.status == 201, "{}", response.text);
    Ok(())
}

pub(crate) fn without_limits() -> Setup {
    Setup::default().set("limits.otp_sends_per_network", "100000+100000")
}
