//! A node that has to know a million revocations: how long it takes to start, its memory, and what a token check costs then.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use serde_json::json;
use service_api::ids::GrantId;
use service_rules::revocation::position::LANES;
use service_server::{clock::Clock, crypto::random};
use service_testkit::{process::Process, server::fresh_database, settings::Settings};
use tokio_postgres::Client;

use super::{Bench, idle::megabytes, median, whoami};
use crate::{say, say_error};

const REVOCATIONS: usize = 1_000_000;
const MAX_START: Duration = Duration::from_secs(3);

pub(super) async fn measure(bench: &Bench, json: bool) -> Result<()> {
    let count = if bench.quick { 20_000 } else { REVOCATIONS };
    let (few, many) = (FollowingNode::start(bench, 0).await?, FollowingNode::start(bench, count).await?);
    let (mut rates, mut rates_after) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        rates.push(few.whoami(bench).await?);
        rates_after.push(many.whoami(bench).await?);
    }
    let (few_took, took) = (few.took, many.took);
    let (few_megabytes, memory) = (megabytes(&few.server)?, megabytes(&many.server)?);
    let ratio = median(&rates_after) / median(&rates);
    if json {
        let (seconds, few_seconds) = (took.as_secs_f64(), few_took.as_secs_f64());
        let measured = json!({ "name": "feed", "revocations": count, "start_s": seconds, "start_without_s": few_seconds, "mb": memory,
                               "without_mb": few_megabytes, "whoami_ratio": ratio });
        say(&measured.to_string());
    } else {
        say(&format!(
            "{:24} {count} revocations: ready after {took:.1?} ({few_took:.1?} without), {memory:.1} MB ({few_megabytes:.1}), whoami × {ratio:.2}",
            "feed"
        ));
    }
    ensure!(took <= MAX_START, "a node with {count} revocations starts in {took:?}");
    Ok(())
}

/// A node with a database that no other node follows.
struct FollowingNode {
    server: Process,
    /// How long it took to be ready.
    took: Duration,
    request: String,
}

impl FollowingNode {
    async fn start(bench: &Bench, revocations: usize) -> Result<Self> {
        let database = fresh_database(&bench.cluster).await?;
        if revocations > 0 {
            let (client, connection) =
                tokio_postgres::connect(&bench.cluster.url(&database), tokio_postgres::NoTls).await?;
            tokio::spawn(connection);
            insert(&client, revocations).await?;
        }
        let settings = Settings::complete(&bench.cluster.service_url(&database), &bench.mailbox)?;
        let began = Instant::now();
        let server = Process::start(&bench.binary, &settings, &bench.leaks)?;
        let took = began.elapsed();
        let token = whoami::sign_in_at(bench, &server.http, "feed@acme.test", "read").await?;
        let request = format!("GET /v1/whoami HTTP/1.1\r\nHost: service.test\r\nAuthorization: Bearer {token}\r\n\r\n");
        Ok(Self { server, took, request })
    }

    async fn whoami(&self, bench: &Bench) -> Result<f64> {
        let address: SocketAddr = self.server.http.url.trim_start_matches("http://").parse()?;
        whoami::run(bench, address, &self.request).await
    }
}

/// Stores revocations of as many grants, in all lanes, as the service stores them: all tokens of a grant are revoked, whenever they
/// were issued.
async fn insert(client: &Client, count: usize) -> Result<()> {
    say_error(&format!("Storing {count} revocations"));
    let now = Clock::System.now();
    let share = count.div_ceil(LANES);
    for lane in 0..LANES {
        let ids = (0..share).map(|_| random::uuid(now)).collect::<Result<Vec<_>>>()?;
        let subjects: Vec<String> = ids.iter().map(|id| GrantId::from(*id).to_string()).collect();
        let insert = "with taken as (
                          update revocation_lanes set last = last + cardinality($2::uuid[]), last_id = ($2::uuid[])[cardinality($2::uuid[])]
                           where lane = $1 returning last - cardinality($2::uuid[]) as before
                      )
                      insert into revocations (lane, number, id, kind, subject, because, not_before, forget_at)
                      select $1, before + place, id, 'grant', subject, 'revoked_by_user', until, until
                        from taken, (select now() + interval '1 day' as until) as life,
                             unnest($2::uuid[], $3::text[]) with ordinality as made (id, subject, place)";
        client.execute(insert, &[&i16::try_from(lane)?, &ids, &subjects]).await?;
    }
    client.batch_execute("vacuum analyze revocations").await?;
    Ok(())
}
