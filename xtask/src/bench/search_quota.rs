//! A space at its quota: the duration of a search, and the effect on other users of an account that searches without a
//! pause.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use service_testkit::process::Process;
use tokio_postgres::Client;

use super::{Bench, others::Others, search};
use crate::{say, say_error};

pub(super) const PACKS: u32 = 10_000;
/// Searches per second from one account.
const SEARCHES_PER_SECOND: u32 = 50;
const MAX_SEARCH_P99_MS: f64 = 50.0;
const MAX_RATIO: f64 = 2.0;

pub(super) const QUERIES: [&str; 8] = [
    "harbour",
    "word17 word230",
    "\"harbour report\"",
    "report -zeppelin",
    "harbuor",
    "word5 or word900",
    "zeppelin",
    "report 4711",
];

pub(super) async fn measure(bench: &Bench, json: bool) -> Result<()> {
    let (client, connection) =
        tokio_postgres::connect(&bench.cluster.url(&bench.database), tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    let token = search::prepare(&bench.settings, &client).await?;
    let packs = if bench.quick { 500 } else { PACKS };
    seed_among(&client, packs, 0).await?;
    let p99 = alone(bench, &token).await?;
    // The mail of other users is needed, and limits have their defaults.
    bench.mailbox.stall(false);
    let mut settings = bench.settings.clone();
    for (key, value) in [
        ("limits.requests_per_user", "1200+72000"),
        ("limits.searches_per_user", "60+3600"),
        ("database.connections", "16"),
    ] {
        settings.set(key, value);
    }
    let server = Process::start(&bench.binary, &settings, &bench.leaks)?;
    let others =
        Others { http: &server.http, mailbox: &bench.mailbox, leaks: &bench.leaks, made: AtomicU64::default() };
    let limited = AtomicU64::default();
    let (rounds, duration) = if bench.quick { (1, Duration::from_secs(2)) } else { (5, Duration::from_secs(12)) };
    let ratio = others
        .compare("search", rounds, duration, async |until| attack(&server, &token, until, &limited).await)
        .await?;
    let limited = limited.into_inner();
    if json {
        let line = serde_json::json!({
            "name": "search_quota", "packs": packs, "search_p99_ms": p99, "others_p99_ratio": ratio, "limited": limited,
        });
        say(&line.to_string());
    } else {
        say(&format!(
            "{:24} p99 {p99:.1} ms with {packs} packs; others' p99 × {ratio:.2}; {limited} searches got 429",
            "search_quota"
        ));
    }
    ensure!(limited > 0, "no search was limited");
    ensure!(bench.quick || p99 <= MAX_SEARCH_P99_MS, "a search took {p99:.1} ms");
    ensure!(bench.quick || ratio <= MAX_RATIO, "others waited {ratio:.2} times as long");
    Ok(())
}

/// Creates packs of 20,000 characters. Words are as frequent as in a language: one word of ten is the most frequent
/// one. Others have packs, too, with a short text; only search reads these, so they are in its table alone.
pub(super) async fn seed_among(client: &Client, packs: u32, others: u32) -> Result<()> {
    let (space, user) = (search::space(0), search::USER);
    let seed = format!(
        "drop index pack_search_words;
         create temporary table texts as
           select n, left(string_agg('word' || floor(exp(random() * ln(20000)))::integer, ' '), 20000) as text
             from generate_series(0, 199) n, generate_series(1, 2900) word group by n;
         create temporary table vectors as select n, setweight(to_tsvector('english', text), 'B') as words from texts;
         create temporary table packs as
           select n, gen_random_uuid() as id, 'Harbour report ' || n as name from generate_series(1, {packs}) n;
         insert into contents (space_id, kind, id, shard, in_workspace, fields, version, created_by, created_at, updated_at)
           select '{space}', 'pack', id, shard_of('{space}'), true, jsonb_build_object('type', 'context', 'name', name, 'text', text),
                  1, '{user}', now(), now() from packs join texts on texts.n = packs.n % 200;
         insert into pack_search (space_id, pack_id, shard, pack_type, name, words)
           select '{space}', id, shard_of('{space}'), 'context', name, setweight(to_tsvector('english', name), 'A') || words
             from packs join vectors on vectors.n = packs.n % 200;
         set session_replication_role = replica;
         insert into pack_search (space_id, pack_id, shard, pack_type, name, words)
           select md5((n / 100)::text)::uuid, gen_random_uuid(), n % 4096, 'context', 'Harbour report ' || n,
                  setweight(to_tsvector('english', 'Harbour report'), 'A') || setweight(to_tsvector('english', 'word' || n % 900), 'B')
             from generate_series(1, {others}) n;
         reset session_replication_role;
         set maintenance_work_mem = '256MB';"
    );
    say_error(&format!("Making {packs} packs …"));
    client.batch_execute(&seed).await.context("the packs could not be made")?;
    client.batch_execute(search::index_statement()?).await?;
    client.batch_execute("vacuum analyze pack_search").await?;
    client.batch_execute("vacuum analyze contents").await.context("not vacuumed")
}

/// Returns the 99th percentile of searches, one at a time, in milliseconds.
async fn alone(bench: &Bench, token: &str) -> Result<f64> {
    let times = search::search(&bench.server.http, token, &QUERIES, if bench.quick { 20 } else { 1_000 }).await?;
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)] * 1_000.0;
    say_error(&format!("A search in a full space: p50 {:.1} ms, p99 {:.1} ms", at(50), at(99)));
    Ok(at(99))
}

/// Searches at a steady rate, whatever the responses are.
async fn attack(server: &Process, token: &str, until: Instant, limited: &AtomicU64) -> Result<()> {
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / SEARCHES_PER_SECOND);
    let path = search::path()?;
    let mut searches = tokio::task::JoinSet::new();
    for number in 0.. {
        ticks.tick().await;
        if Instant::now() >= until {
            break;
        }
        let body = serde_json::json!({ "type": "context", "query": QUERIES[number % QUERIES.len()], "limit": 100 });
        let request = server.http.request(reqwest::Method::POST, &path).bearer_auth(token).json(&body);
        searches.spawn(request.send());
    }
    while let Some(ended) = searches.join_next().await {
        let status = ended??.status().as_u16();
        ensure!(matches!(status, 200 | 429 | 503), "the searcher got {status}");
        limited.fetch_add(u64::from(status == 429), Ordering::Relaxed);
    }
    Ok(())
}
