//! Verifying a cached access token: `GET /v1/whoami` against a bare handler that returns the same bytes.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use service_testkit::{
    load,
    response::TestClient,
    server::{otp_exchange, signed_in},
};

use super::{Bench, Measured, bare::Bare};

pub(super) async fn measure(bench: &Bench) -> Result<[Measured; 2]> {
    let token = sign_in(bench, "bench@acme.test", "read").await?;
    let response = bench.server.http.get("/v1/whoami", Some(&token)).await?;
    ensure!(response.status == 200, "whoami does not work");
    let bare = Bare::start(&response.headers, &response.text)?;
    let address = |http: &TestClient| -> Result<SocketAddr> { Ok(http.url.trim_start_matches("http://").parse()?) };
    let (ours, logging) = (address(&bench.server.http)?, address(&bench.logging.http)?);
    let request = format!("GET /v1/whoami HTTP/1.1\r\nHost: service.test\r\nAuthorization: Bearer {token}\r\n\r\n");

    let mut plain = Measured { name: "whoami", ours: Vec::new(), bare: Vec::new() };
    let mut logged = Measured { name: "whoami_logged", ours: Vec::new(), bare: Vec::new() };
    for _ in 0..bench.rounds {
        let without = run(bench, bare.address, &request).await?;
        plain.bare.push(without);
        plain.ours.push(run(bench, ours, &request).await?);
        logged.bare.push(without);
        logged.ours.push(run(bench, logging, &request).await?);
    }
    Ok([plain, logged])
}

pub(super) async fn run(bench: &Bench, address: SocketAddr, request: &str) -> Result<f64> {
    let bytes = Arc::new(request.as_bytes().to_vec());
    let seen = load::run(address, bench.connections, bench.round, move |_, _| bytes.to_vec()).await?;
    ensure!(seen.failures == 0, "{} of {} requests failed", seen.failures, seen.requests);
    Ok(seen.per_second())
}

pub(super) async fn sign_in(bench: &Bench, email: &str, scope: &str) -> Result<String> {
    sign_in_at(bench, &bench.server.http, email, scope).await
}

/// Signs in at a server that sends its mail to the mailbox of the benchmark.
pub(super) async fn sign_in_at(bench: &Bench, http: &TestClient, email: &str, scope: &str) -> Result<String> {
    bench.mailbox.stall(false);
    let (otp_id, code) = service_testkit::server::request_code(http, &bench.mailbox, &bench.leaks, email).await?;
    bench.mailbox.stall(true);
    let response = http.post("/oauth/token", &otp_exchange(&otp_id, &code, scope)).await?;
    Ok(signed_in(&response).context("cannot sign in")?.access_token)
}
