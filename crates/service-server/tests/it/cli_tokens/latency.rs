//! How long after its end a token for automation is accepted anywhere.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;
use serde_json::json;
use service_testkit::{
    process::Process,
    server::{Setup, otp_exchange, request_code, signed_in},
};

use crate::support::cli_tokens::PATH;

/// From the acknowledged end to the last use that was accepted on any of three nodes that all remember the token.
#[test]
fn an_ended_token_is_refused_on_every_node_within_a_second_cl_08() -> Result<()> {
    let setup = Setup::default().on_system_clock().set("limits.otp_sends_per_address", "100000/60");
    setup.run(async |server| {
        let nodes: Vec<_> = (0..3)
            .map(|_| Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), &server.settings, &server.leaks))
            .collect::<Result<_>>()?;
        let worker = async |worker: usize| {
            let http = &nodes[worker % 3].http;
            let email = format!("ann{worker}@acme.test");
            let (otp_id, code) = request_code(http, &server.mailbox, &server.leaks, &email).await?;
            let ann = signed_in(&http.post("/oauth/token", &otp_exchange(&otp_id, &code, "read write")).await?)?;
            let mut seen = Vec::new();
            for number in 0..50 {
                let made = http
                    .send(http.request(reqwest::Method::POST, PATH).bearer_auth(&ann.access_token).json(&json!({})))
                    .await?;
                let (id, token) = (made.field("id").to_owned(), made.field("access_token").to_owned());
                for node in &nodes {
                    ensure!(node.http.get("/v1/whoami", Some(&token)).await?.status == 200, "it does not work");
                }
                let path = format!("{PATH}/{id}");
                let ender = &nodes[number % 3].http;
                let ended =
                    ender.send(ender.request(reqwest::Method::DELETE, &path).bearer_auth(&ann.access_token)).await?;
                ensure!(ended.status == 204, "{}", ended.text);
                let acknowledged = Instant::now();
                let last = async |node: &Process| -> Result<Option<Instant>> {
                    let mut last = None;
                    loop {
                        let sent = Instant::now();
                        match node.http.get("/v1/whoami", Some(&token)).await?.status.as_u16() {
                            200 => last = Some(sent),
                            401 => return Ok(last),
                            other => anyhow::bail!("{other}"),
                        }
                        ensure!(acknowledged.elapsed() < Duration::from_secs(10), "accepted for ever");
                    }
                };
                let last = try_join_all(nodes.iter().map(last)).await?.into_iter().flatten().max();
                seen.push(last.map_or(Duration::ZERO, |last| last.saturating_duration_since(acknowledged)));
            }
            anyhow::Ok(seen)
        };
        let seen = try_join_all((0..4).map(worker)).await?;
        let mut seen: Vec<_> = seen.into_iter().flatten().collect();
        seen.sort_unstable();
        let (p50, p99, longest) = (seen[99], seen[197], seen[199]);
        let text = "tokens ended that three nodes remember; accepted after that";
        println!("{} {text}: p50 {p50:?}, p99 {p99:?}, longest {longest:?}", seen.len());
        assert!(p99 <= Duration::from_secs(1) && longest <= Duration::from_secs(5));
        Ok(())
    })
}
