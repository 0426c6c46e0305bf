//! A standby is promoted while the former primary goes on answering: nothing that was revoked since is accepted.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use crate::support::{
    failover::{AT_MOST, Pair, connect},
    revocations::insert_in_lane,
};
use anyhow::{Context as _, Result, ensure};
use reqwest::Method;
use serde_json::json;
use service_rules::revocation::position::FeedPosition;
use service_server::{app::App, clock::Clock, crypto::random, store, tasks::revocation_feed::read_lanes};
use service_testkit::{
    postgres::Stop,
    process::Process,
    response::TestResponse,
    server::{Setup, TestServer, otp_exchange, request_code, signed_in},
    settings::Settings,
};

/// For so long a node may go by what it read, and no longer.
const STALE_AFTER: Duration = Duration::from_secs(30);

/// A node on these servers, and an access token and a CLI token that work there.
async fn start_node(server: &TestServer, settings: &Settings) -> Result<(Process, [String; 2])> {
    let node = Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), settings, &server.leaks)?;
    let (otp_id, code) = request_code(&node.http, &server.mailbox, &server.leaks, "ann@acme.test").await?;
    let response = node.http.post("/oauth/token", &otp_exchange(&otp_id, &code, "read write")).await?;
    let access_token = signed_in(&response)?.access_token;
    let request = node.http.request(Method::POST, "/v1/cli/tokens").bearer_auth(&access_token);
    let made = node.http.send(request.json(&json!({ "name": "CI" }))).await?;
    ensure!(made.status == 201, "{}", made.text);
    let tokens = [access_token, made.field("access_token").to_owned()];
    for token in &tokens {
        ensure!(whoami(&node, token).await?.status == 200, "a new token does not work");
    }
    Ok((node, tokens))
}

async fn whoami(node: &Process, token: &str) -> Result<TestResponse> {
    node.http.get("/v1/whoami", Some(token)).await
}

/// Waits until neither token is accepted; how long after `since` the last request was sent that was.
async fn accepted_until(node: &Process, tokens: &[String; 2], since: Instant) -> Result<(Duration, [TestResponse; 2])> {
    let mut last = Duration::ZERO;
    loop {
        let sent = since.elapsed();
        let responses = [whoami(node, &tokens[0]).await?, whoami(node, &tokens[1]).await?];
        if responses.iter().all(|response| response.status != 200) {
            return Ok((last, responses));
        }
        last = sent;
        ensure!(last < STALE_AFTER + Duration::from_secs(10), "a revoked token is accepted for ever");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn a_former_primary_vouches_for_no_revoked_token_longer_than_thirty_seconds_rv_10() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let pair = Pair::start().await?;
        let mut settings = server.settings.clone();
        // The former primary comes first: while it takes connections, nothing leads the node away from it.
        settings.set("database.url", &pair.url([&pair.primary, &pair.standby]));
        let (node, tokens) = start_node(server, &settings).await?;
        ensure!(node.ops.get("/readyz", None).await?.status == 200, "the node is not ready");

        pair.fail_over().await?;
        pair.disable(&settings, "ann@acme.test")?;
        let (accepted, responses) = accepted_until(&node, &tokens, Instant::now()).await?;
        println!("accepted for {accepted:?} after they were revoked elsewhere");
        assert!(accepted <= STALE_AFTER);
        for response in responses {
            assert_eq!((response.status.as_u16(), response.error()), (503, "temporarily_unavailable"));
        }
        let ready = node.ops.get("/readyz", None).await?;
        assert!(ready.status == 503 && ready.text.contains("no heartbeat was confirmed"), "{}", ready.text);
        let metrics = node.ops.get("/metrics", None).await?.text;
        let age = metrics.lines().find_map(|line| line.strip_prefix("service_heartbeat_age_seconds "));
        assert!(age.context("no metric")?.parse::<f64>()? > 30.0);

        // When the former primary is gone at last, the node follows the new one by itself. The test sends requests without a
        // pause: a heartbeat that the new primary confirms must not make revocations count that were read from the former one.
        pair.primary.stop(Stop::Immediate)?;
        let began = Instant::now();
        loop {
            let response = whoami(&node, &tokens[1]).await?;
            if response.status == 401 {
                assert_eq!(response.body["details"]["reason"], "user_disabled");
                break;
            }
            ensure!(response.status == 503 && began.elapsed() < AT_MOST, "{}", response.text);
        }
        Ok(())
    })
}

/// Some connections of a node lead to the former primary and some to its successor: the successor counts.
#[test]
fn who_has_seen_the_new_primary_listens_to_the_former_no_more_rv_10() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let pair = Pair::start().await?;
        let mut settings = server.settings.clone();
        settings.set("database.url", &pair.url([&pair.standby, &pair.primary]));
        let (node, tokens) = start_node(server, &settings).await?;
        pair.fail_over().await?;
        pair.disable(&settings, "ann@acme.test")?;
        let since = Instant::now();
        let (accepted, _) = accepted_until(&node, &tokens, since).await?;
        println!("accepted for {accepted:?} after they were revoked elsewhere");
        // The former primary still answers, but it is not asked. A heartbeat that is not confirmed leads to the other.
        assert!(accepted < Duration::from_secs(15), "{accepted:?}");
        let began = Instant::now();
        for token in &tokens {
            while whoami(&node, token).await?.status != 401 {
                ensure!(began.elapsed() < AT_MOST, "the node does not follow the new primary");
            }
        }
        assert_eq!(node.ops.get("/readyz", None).await?.status, 200);
        // An orderly stop would wait for the standby that it has lost.
        pair.primary.stop(Stop::Immediate)
    })
}

/// On a standby a lane shows what was committed in it, in that order, and a heartbeat tells how far it has come.
#[test]
fn a_standby_is_read_without_passing_over_a_late_commit_rv_10() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let pair = Pair::start().await?;
        let mut settings = server.settings.clone();
        settings.set("database.url", &pair.standby.service_url(&pair.database));
        let on_standby = App::new(service_testkit::server::config(&settings)?, Clock::System)?;
        let (late, early) =
            (connect(&pair.primary, &pair.database).await?, connect(&pair.primary, &pair.database).await?);
        for client in [&late, &early] {
            client.batch_execute("set synchronous_commit = remote_apply").await?;
        }
        let insert = |lane| anyhow::Ok(insert_in_lane(lane, random::id(server.now())?, "client", "a"));
        late.batch_execute(&format!("begin; {}", insert(0)?)).await?;
        early.batch_execute(&insert(1)?).await?;
        let database = &on_standby.feed_databases[0];
        let db = database.connect().await?;
        let first = store::revocations::poll(&db).await?;
        assert!(first[0].is_none() && first[1].is_some());
        let server = store::revocations::identify(&db, on_standby.node_id).await?;
        assert!(server.own_beat_at.is_none());
        drop(db);
        let (mut position, mut found) = (FeedPosition::default(), 0);
        read_lanes(database, &first, &mut position, |revocations| found += revocations.len()).await?;
        assert_eq!(found, 1);
        late.batch_execute("commit").await?;
        let beat = format!("insert into node_heartbeats values ('{}', clock_timestamp())", on_standby.node_id);
        early.batch_execute(&beat).await?;
        let db = database.connect().await?;
        let second = store::revocations::poll(&db).await?;
        assert!(store::revocations::identify(&db, on_standby.node_id).await?.own_beat_at.is_some());
        drop(db);
        read_lanes(database, &second, &mut position, |revocations| found += revocations.len()).await?;
        assert_eq!(found, 2, "the late commit was passed over");
        Ok(())
    })
}
