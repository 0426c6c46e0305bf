//! Injected faults, many times over; run by tests a few hundred times and by `cargo xtask faults` more often.

use std::{net::SocketAddr, path::Path};

use anyhow::{Context as _, Result, ensure};

use crate::{
    fault_proxy::FaultProxy,
    process::Process,
    server::{SignedIn, TestServer, otp_exchange, refresh_body, request_code, signed_in},
    settings::Settings,
};

/// PostgreSQL's response to the statement that rotates a grant. It is sent after the commit.
const ROTATION_COMMITTED: &[u8] = b"UPDATE 1\0";

/// Kills a node after a rotation was committed and before its response is sent, `loops` times. The client then presents
/// its token to the next node.
pub async fn kill_between_commit_and_answer(
    server: &TestServer,
    binary: &Path,
    loops: u32,
    progress: impl Fn(u32),
) -> Result<()> {
    let database = SocketAddr::from(([127, 0, 0, 1], server.cluster.port()));
    let proxy = FaultProxy::start(database)?;
    let mut settings: Settings = server.settings.clone();
    settings.set("database.url", &server.cluster.service_url_at(proxy.address.port(), &server.database));
    let start = || Process::start(binary, &settings, &server.leaks);

    let mut node = start()?;
    let (otp_id, code) = request_code(&node.http, &server.mailbox, &server.leaks, "ann@acme.test").await?;
    let mut ann = signed_in(&node.http.post("/oauth/token", &otp_exchange(&otp_id, &code, "read")).await?)?;
    for done in 0..loops {
        let before = generations(server, &ann).await?;
        let body = refresh_body(&ann.refresh_token);
        let http = node.http.clone();
        let asking = http.post("/oauth/token", &body);
        let killing = async {
            proxy.hold_back(ROTATION_COMMITTED).await;
            anyhow::Ok(())
        };
        tokio::pin!(asking, killing);
        tokio::select! {
            response = &mut asking => anyhow::bail!("loop {done}: answered before the commit was: {:?}", response?.status),
            held = &mut killing => held?,
        }
        let after = generations(server, &ann).await?;
        ensure!(after != before, "loop {done}: nothing was committed");
        node.kill()?;
        ensure!(asking.await.is_err(), "loop {done}: a dead node answered");

        node = start()?;
        let response = node.http.post("/oauth/token", &body).await?;
        ann = signed_in(&response).with_context(|| format!("loop {done}: the retry was refused"))?;
        let whoami = node.http.get("/v1/whoami", Some(&ann.access_token)).await?;
        ensure!(whoami.status == 200, "loop {done}: {}", whoami.text);
        progress(done + 1);
    }
    let replays =
        server.sql("select count(*) from audit_events where event <> 'sign_in.succeeded' and event like 'refresh%'");
    ensure!(replays.await?.as_deref() == Some("0"), "a retry was taken for a replay");
    Ok(())
}

async fn generations(server: &TestServer, session: &SignedIn) -> Result<Option<String>> {
    let id = service_api::ids::Id::uuid(session.grant_id);
    server.sql(&format!("select base || ' ' || issued from grants where id = '{id}'")).await
}
