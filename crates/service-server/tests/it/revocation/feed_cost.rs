//! What following the revocations costs: polls, bytes, time, and processor time of the database.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use service_api::{
    errors::Reason,
    ids::{GrantId, RevocationId},
};
use service_rules::revocation::{Revocation, Subject, position::LANES};
use service_server::{crypto::random, flows::revocation::RevocationTransaction, store};
use service_testkit::{
    fault_proxy::FaultProxy,
    process::Process,
    server::{Setup, TestServer, otp_exchange, request_code, signed_in},
};

use crate::support::{
    failover::{Pair, connect},
    revocations::{insert_in_lane, write_as_another_node},
};

const SERVICED: &str = env!("CARGO_BIN_EXE_serviced");

async fn metric(node: &Process, name: &str) -> Result<f64> {
    let metrics = node.ops.get("/metrics", None).await?.text;
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(value.with_context(|| format!("no metric {name}"))?.parse()?)
}

async fn polls(node: &Process) -> Result<f64> {
    metric(node, "service_revocation_polls_total").await
}

/// Waits until the node has polled so many times more.
async fn wait_for_polls(node: &Process, more: f64) -> Result<()> {
    let (began, before) = (Instant::now(), polls(node).await?);
    while polls(node).await? < before + more {
        ensure!(began.elapsed() < Duration::from_secs(10), "the node does not poll");
    }
    Ok(())
}

#[test]
fn three_nodes_poll_at_most_twenty_times_a_second_at_four_hundred_revocations() -> Result<()> {
    const WRITERS: u32 = 8;
    const PERIOD: Duration = Duration::from_secs(5);
    Setup::default().on_system_clock().run(async |server| {
        let nodes: Vec<_> = (0..3)
            .map(|_| Process::start(Path::new(SERVICED), &server.settings, &server.leaks))
            .collect::<Result<_>>()?;
        let before = try_join_all(nodes.iter().map(polls)).await?;
        let began = Instant::now();
        let write = async || {
            let mut tick = tokio::time::interval(Duration::from_secs(1) * WRITERS / 400);
            let mut written = 0;
            while began.elapsed() < PERIOD {
                tick.tick().await;
                let mut transaction = RevocationTransaction::begin(&server.app, server.now()).await?;
                let id: GrantId = random::id(server.now())?;
                transaction.revoke(Subject::Grant(id), Reason::RevokedByUser)?;
                transaction.commit().await?;
                written += 1;
            }
            anyhow::Ok(written)
        };
        let written: u32 = try_join_all((0..WRITERS).map(|_| write())).await?.into_iter().sum();
        let seconds = began.elapsed().as_secs_f64();
        let after = try_join_all(nodes.iter().map(polls)).await?;
        let rates: Vec<_> = before.iter().zip(&after).map(|(before, after)| (after - before) / seconds).collect();
        println!("{:.0} revocations a second; polls a second of each node: {rates:.1?}", f64::from(written) / seconds);
        ensure!(f64::from(written) / seconds > 200.0, "too few revocations: {written}");
        assert!(rates.iter().all(|rate| *rate <= 20.5 && *rate > 4.0), "{rates:?}");
        for node in &nodes {
            wait_for_polls(node, 2.0).await?;
            assert!((metric(node, "service_revocations").await? - f64::from(written)).abs() < 0.5);
        }
        Ok(())
    })
}

/// Stores revocations of grants, as many in each lane.
async fn fill(server: &TestServer, count: usize) -> Result<()> {
    const BATCH: usize = 2_500;
    let now = server.now();
    for batch in 0..count / BATCH {
        let revocations = (0..BATCH).map(|_| {
            let subject = Subject::Grant(random::id(now)?);
            Ok((random::id::<RevocationId>(now)?, Revocation::of(subject, Reason::RevokedByUser, now)))
        });
        let db = server.app.database.connect_within(Duration::from_secs(60)).await?;
        store::revocations::insert(&db, batch % LANES, &revocations.collect::<Result<Vec<_>>>()?).await?;
    }
    Ok(())
}

#[test]
fn after_a_lost_connection_a_node_reads_only_what_is_new() -> Result<()> {
    const LIVE: usize = 500_000;
    Setup::default().on_system_clock().run(async |server| {
        let between = FaultProxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, server.cluster.port())))?;
        let mut settings = server.settings.clone();
        settings.set("database.feed_urls", &server.cluster.service_url_at(between.address.port(), &server.database));
        let node = Process::start(Path::new(SERVICED), &settings, &server.leaks)?;
        fill(server, LIVE).await?;
        let filled = Instant::now();
        while metric(&node, "service_revocations").await? < 500_000.0 {
            ensure!(filled.elapsed() < Duration::from_secs(60), "the node does not follow");
        }
        let (otp_id, code) = request_code(&node.http, &server.mailbox, &server.leaks, "ann@acme.test").await?;
        let ann = signed_in(&node.http.post("/oauth/token", &otp_exchange(&otp_id, &code, "read")).await?)?;
        let listed = "select count(pg_terminate_backend(pid)) from pg_stat_activity
                       where datname = current_database() and query like 'select l%revocation_lanes%'";
        let (before, lost) = (between.received(), Instant::now());
        assert_ne!(server.sql(listed).await?.as_deref(), Some("0"), "no connection was lost");
        write_as_another_node(server, "grant", &ann.grant_id.to_string()).await?;
        while node.http.get("/v1/whoami", Some(&ann.access_token)).await?.status == 200 {
            ensure!(lost.elapsed() < Duration::from_secs(5), "the revocation is not read");
        }
        let (bytes, took) = (between.received() - before, lost.elapsed());
        println!("{bytes} bytes in {took:?} after the connection was lost");
        assert!(bytes <= 100_000);
        assert_eq!(node.ops.get("/readyz", None).await?.status, 200);
        assert!(metric(&node, "service_revocations").await? > 500_000.0);
        Ok(())
    })
}

/// The node notices by its own heartbeats, which do not arrive any more, and turns to the primary.
#[test]
fn a_standby_that_stops_replaying_hides_no_revocation_for_long_rv_10() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let pair = Pair::start().await?;
        let mut settings = server.settings.clone();
        settings.set("database.url", &pair.primary_url());
        settings.set("database.feed_urls", &pair.standby_url());
        let node = Process::start(Path::new(SERVICED), &settings, &server.leaks)?;
        let (otp_id, code) = request_code(&node.http, &server.mailbox, &server.leaks, "ann@acme.test").await?;
        let ann = signed_in(&node.http.post("/oauth/token", &otp_exchange(&otp_id, &code, "read")).await?)?;
        let status =
            async || Ok::<_, anyhow::Error>(node.http.get("/v1/whoami", Some(&ann.access_token)).await?.status);
        let began = Instant::now();
        while status().await? != 200 {
            ensure!(began.elapsed() < Duration::from_secs(5), "the heartbeat does not arrive");
        }
        let operator = connect(&pair.standby, &pair.database).await?;
        operator.batch_execute("select pg_wal_replay_pause()").await?;
        let insert = insert_in_lane(3, random::id(server.now())?, "grant", &ann.grant_id.to_string());
        // The standby does not replay, so this does not wait for it.
        connect(&pair.primary, &pair.database).await?.batch_execute(&insert).await?;
        let revoked = Instant::now();
        let refused = loop {
            match status().await?.as_u16() {
                200 => ensure!(revoked.elapsed() < Duration::from_secs(30), "the revocation is never seen"),
                other => break other,
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        println!("refused {:?} after it was revoked, while the standby did not replay", revoked.elapsed());
        assert_eq!(refused, 401, "no other token is refused");
        assert!(revoked.elapsed() < Duration::from_secs(20));
        assert_eq!(node.ops.get("/readyz", None).await?.status, 200);
        Ok(())
    })
}

#[test]
fn a_standby_that_cannot_be_reached_is_replaced_by_the_primary() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let closed_port = format!("postgres://serviced@127.0.0.1:{}/none", service_testkit::ports::free()?);
        let mut settings = server.settings.clone();
        settings.set("database.feed_urls", &closed_port);
        let node = Process::start(Path::new(SERVICED), &settings, &server.leaks)?;
        wait_for_polls(&node, 3.0).await?;
        assert_eq!(node.ops.get("/readyz", None).await?.status, 200);
        Ok(())
    })
}

/// The processor time that a backend has used, in seconds.
fn processor_time(pid: i32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<_> = stat.rsplit(')').next().context("no fields")?.split_whitespace().collect();
    // User and system time, in hundredths of a second.
    Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / 100.0)
}

/// Runs a statement many times; how much processor time of its backend one takes, in microseconds.
async fn cost(pid: i32, run: impl AsyncFn() -> Result<()>) -> Result<f64> {
    const TIMES: u32 = 10_000;
    let before = processor_time(pid)?;
    for _ in 0..TIMES {
        run().await?;
    }
    Ok((processor_time(pid)? - before) / f64::from(TIMES) * 1e6)
}

/// Measured beside the cheapest statement that there is, because a busy machine makes both more expensive.
#[test]
fn a_poll_that_finds_nothing_costs_the_database_little() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let cluster = service_testkit::postgres::Cluster::start_quiet()?;
        let database = service_testkit::server::fresh_database(&cluster).await?;
        let mut settings = server.settings.clone();
        settings.set("database.url", &cluster.service_url(&database));
        let app = service_server::app::App::new(service_testkit::server::config(&settings)?, server.app.clock.clone())?;
        let db = app.feed_databases[0].connect_within(Duration::from_secs(120)).await?;
        let pid: i32 = db.query_opt("select pg_backend_pid()", &[]).await?.context("no backend")?.get(0);
        let bare = cost(pid, async || Ok(db.query_unnamed("select 1", &[]).await.map(drop)?)).await?;
        let poll = cost(pid, async || Ok(store::revocations::poll(&db).await.map(drop)?)).await?;
        let identify = cost(pid, async || Ok(store::revocations::identify(&db, app.node_id).await.map(drop)?)).await?;
        println!(
            "a poll costs the database {poll:.0} microseconds of processor time, and {identify:.0} more every two seconds; \
             `select 1` costs {bare:.0}"
        );
        assert!(poll <= 4.0 * bare && identify <= 25.0 * bare);
        Ok(())
    })
}
