//! Revocation over three processes: how long after it was acknowledged a token is still accepted anywhere.

use std::{
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use reqwest::Method;
use service_server::crypto::random;
use service_testkit::{
    fault_proxy::FaultProxy,
    postgres::{Cluster, Stop},
    process::Process,
    server::{Setup, SignedIn, TestServer, fresh_database, otp_exchange, refresh_body, request_code, signed_in},
};
use tokio::time::sleep;

use crate::support::revocations::insert_in_lane;

const SERVICED: &str = env!("CARGO_BIN_EXE_serviced");
const REVOCATIONS: usize = 200;
/// So many are under way at once, each asking every node so often: 200 requests a second on three nodes.
const AT_ONCE: usize = 4;
const ASK_EVERY: Duration = Duration::from_millis(60);

fn setup() -> Setup {
    Setup::default().on_system_clock().set("limits.otp_sends_per_address", "100000/60")
}

async fn sign_in(server: &TestServer, node: &Process, email: &str) -> Result<SignedIn> {
    let (otp_id, code) = request_code(&node.http, &server.mailbox, &server.leaks, email).await?;
    signed_in(&node.http.post("/oauth/token", &otp_exchange(&otp_id, &code, "read write")).await?)
}

/// Asks one node until it refuses; when the last request that it accepted was sent.
async fn last_accepted(node: &Process, token: &str) -> Result<Option<Instant>> {
    let (began, mut last) = (Instant::now(), None);
    loop {
        let sent = Instant::now();
        let response = node.http.get("/v1/whoami", Some(token)).await?;
        match response.status.as_u16() {
            200 => last = Some(sent),
            401 => return Ok(last),
            other => anyhow::bail!("{other}: {}", response.text),
        }
        ensure!(began.elapsed() < Duration::from_secs(10), "a revoked token is accepted for ever");
        sleep(ASK_EVERY).await;
    }
}

/// Ends one session while it is in use everywhere; how long it was accepted after that had been acknowledged.
async fn revoke_in_use(nodes: &[Process], session: &SignedIn, number: usize) -> Result<Duration> {
    let token = &session.access_token;
    for node in nodes {
        ensure!(node.http.get("/v1/whoami", Some(token)).await?.status == 200, "it does not work in the first place");
    }
    let revocation = async {
        sleep(ASK_EVERY).await;
        let http = &nodes[number % nodes.len()].http;
        let response = if number.is_multiple_of(2) {
            let path = format!("/v1/sessions/{}", session.grant_id);
            http.send(http.request(Method::DELETE, &path).bearer_auth(token)).await?
        } else {
            let body = serde_json::json!({ "token": session.refresh_token, "client_id": "service-cli" });
            http.post("/oauth/revoke", &body).await?
        };
        ensure!(response.status.is_success(), "{}", response.text);
        anyhow::Ok(Instant::now())
    };
    let asking = try_join_all(nodes.iter().map(|node| last_accepted(node, token)));
    let (acknowledged, last) = tokio::try_join!(revocation, asking)?;
    let last = last.into_iter().flatten().max();
    Ok(last.map_or(Duration::ZERO, |last| last.saturating_duration_since(acknowledged)))
}

/// Ends every connection that listens, once a second.
async fn kill_listeners(server: &TestServer, stop: &AtomicBool) -> Result<u32> {
    let mut killed = 0;
    while !stop.load(Ordering::Relaxed) {
        sleep(Duration::from_secs(1)).await;
        let kill = "select count(pg_terminate_backend(pid)) from pg_stat_activity
                     where query like 'listen %' and datname = current_database()";
        killed += server.sql(kill).await?.context("no count")?.parse::<u32>()?;
    }
    Ok(killed)
}

#[test]
fn a_revoked_token_is_refused_on_every_node_within_a_second_br_18() -> Result<()> {
    setup().run(async |server| {
        let nodes: Vec<_> = (0..3)
            .map(|_| Process::start(Path::new(SERVICED), &server.settings, &server.leaks))
            .collect::<Result<_>>()?;
        let stop = AtomicBool::new(false);
        let revoking = async {
            let worker = async |worker: usize| {
                let mut seen = Vec::new();
                for number in (worker..REVOCATIONS).step_by(AT_ONCE) {
                    let session = sign_in(server, &nodes[number % 3], &format!("user{number}@acme.test")).await?;
                    seen.push(revoke_in_use(&nodes, &session, number).await?);
                }
                anyhow::Ok(seen)
            };
            let seen = try_join_all((0..AT_ONCE).map(worker)).await;
            stop.store(true, Ordering::Relaxed);
            seen
        };
        let (seen, killed) = tokio::try_join!(revoking, kill_listeners(server, &stop))?;
        let mut seen: Vec<_> = seen.into_iter().flatten().collect();
        seen.sort_unstable();
        println!("{}", histogram(&seen, killed));
        assert_eq!(seen.len(), REVOCATIONS);
        assert!(killed > 0, "no node listened");
        let p99 = seen[REVOCATIONS * 99 / 100 - 1];
        assert!(p99 <= Duration::from_secs(1), "p99 is {p99:?}");
        assert!(seen[REVOCATIONS - 1] <= Duration::from_secs(5), "the longest took {:?}", seen[REVOCATIONS - 1]);
        for node in &nodes {
            server.leaks.assert_clean("a node's log", &node.log());
        }
        Ok(())
    })
}

fn histogram(seen: &[Duration], killed: u32) -> String {
    let bounds = [0, 1, 50, 100, 150, 200, 250, 300, 400, 500, 1_000, 5_000].map(Duration::from_millis);
    let lines = bounds.windows(2).map(|bound| {
        let count = seen.iter().filter(|took| (bound[0]..bound[1]).contains(*took)).count();
        format!("  below {:>5} ms {count:>4} {}\n", bound[1].as_millis(), "#".repeat(count / 2))
    });
    let at = |share: usize| seen[(seen.len() * share / 100).saturating_sub(1)];
    format!(
        "accepted after the acknowledged revocation, {killed} listeners killed meanwhile:\n{}\
         {} times: p50 {:?}, p99 {:?}, longest {:?}",
        lines.collect::<String>(),
        seen.len(),
        at(50),
        at(99),
        at(100)
    )
}

/// The disk of an hour ago under a node that goes on: the same database by every name, and its lanes are numbered from where
/// they were.
#[test]
fn what_is_ended_in_a_database_that_was_set_back_is_heard() -> Result<()> {
    setup().run(async |server| {
        let cluster = Cluster::start()?;
        let database = fresh_database(&cluster).await?;
        let mut settings = server.settings.clone();
        settings.set("database.url", &cluster.service_url(&database));
        let node = Process::start(Path::new(SERVICED), &settings, &server.leaks)?;
        let ann = sign_in(server, &node, "ann@acme.test").await?;
        let copy = tempfile::tempdir()?;
        let (data, kept) = (cluster.directory().join("data"), copy.path().join("data"));
        let copy = |from: &Path, to: &Path| -> Result<()> {
            ensure!(Command::new("cp").arg("-a").args([from, to]).status()?.success(), "the data cannot be copied");
            Ok(())
        };
        cluster.stop(Stop::Fast)?;
        copy(&data, &kept)?;
        cluster.resume()?;
        let (client, connection) = tokio_postgres::connect(&cluster.url(&database), tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        for lane in (0..16).cycle().take(64) {
            client.batch_execute(&insert_in_lane(lane, random::id(server.now())?, "client", "other")).await?;
        }
        let followed = Instant::now();
        while !node.ops.get("/metrics", None).await?.text.contains("service_revocations 1\n") {
            ensure!(followed.elapsed() < Duration::from_secs(10), "the node does not follow");
        }
        cluster.stop(Stop::Fast)?;
        std::fs::remove_dir_all(&data)?;
        copy(&kept, &data)?;
        cluster.resume()?;
        let insert = insert_in_lane(7, random::id(server.now())?, "grant", &ann.grant_id.to_string());
        let (client, connection) = tokio_postgres::connect(&cluster.url(&database), tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute(&insert).await?;
        let written = Instant::now();
        while node.http.get("/v1/whoami", Some(&ann.access_token)).await?.status == 200 {
            ensure!(written.elapsed() < Duration::from_secs(10), "it is never heard of");
        }
        Ok(())
    })
}

/// Network packets are dropped silently: after thirty seconds the node treats its revocations as stale.
#[test]
fn a_node_cut_off_accepts_nothing_after_thirty_seconds_and_recovers_by_itself_br_19() -> Result<()> {
    setup().run(async |server| {
        let proxy = FaultProxy::start(([127, 0, 0, 1], server.cluster.port()).into())?;
        let mut settings = server.settings.clone();
        settings.set("database.url", &server.cluster.service_url_at(proxy.address.port(), &server.database));
        let cut_off = Process::start(Path::new(SERVICED), &settings, &server.leaks)?;
        let (ann, bob) =
            (sign_in(server, &cut_off, "ann@acme.test").await?, sign_in(server, &cut_off, "bob@acme.test").await?);
        let whoami = async |session: &SignedIn| cut_off.http.get("/v1/whoami", Some(&session.access_token)).await;
        assert_eq!((whoami(&ann).await?.status.as_u16(), whoami(&bob).await?.status.as_u16()), (200, 200));

        proxy.cut();
        let cut = Instant::now();
        let path = format!("/v1/sessions/{}", ann.grant_id);
        let request = server.http.request(Method::DELETE, &path).bearer_auth(&ann.access_token);
        assert_eq!(server.http.send(request).await?.status, 204);
        assert_eq!(server.http.get("/v1/whoami", Some(&ann.access_token)).await?.status, 401);
        let (mut last, mut refusals) = (Duration::ZERO, 0);
        while refusals < 20 {
            let sent = cut.elapsed();
            ensure!(sent < Duration::from_secs(60), "it is accepted for ever");
            let response = whoami(&ann).await?;
            match response.status.as_u16() {
                200 => (last, refusals) = (sent, 0),
                503 => refusals += 1,
                other => anyhow::bail!("{other} after {sent:?}: {}", response.text),
            }
            sleep(Duration::from_millis(100)).await;
        }
        assert!(last <= Duration::from_secs(30), "accepted {last:?} after the cut");
        assert_eq!(cut_off.ops.get("/readyz", None).await?.status, 503);
        let refresh = cut_off.http.post("/oauth/token", &refresh_body(&bob.refresh_token)).await?;
        assert_eq!((refresh.status.as_u16(), refresh.error()), (503, "temporarily_unavailable"));

        let mended = Instant::now();
        proxy.mend();
        loop {
            let (anns, bobs) = (whoami(&ann).await?, whoami(&bob).await?);
            ensure!(anns.status != 200, "a revoked token is back");
            let refreshed = cut_off.http.post("/oauth/token", &refresh_body(&bob.refresh_token)).await?;
            if (anns.status.as_u16(), bobs.status.as_u16(), refreshed.status.as_u16()) == (401, 200, 200) {
                break;
            }
            ensure!(mended.elapsed() < Duration::from_secs(5), "not back after five seconds");
        }
        println!("last accepted {last:?} after the cut; full service {:?} after its end", mended.elapsed());
        assert_eq!(cut_off.ops.get("/readyz", None).await?.status, 200);
        Ok(())
    })
}
