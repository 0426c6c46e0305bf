//! Growth: what operations reach while their tables have ten thousand rows, a million and ten million.
//!
//! A database and a node exist for each size, and rounds alternate between them.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use service_api::oauth::SERVICE_CLI;
use service_testkit::{load, process::Process, server::fresh_database, settings::Settings};
use tokio_postgres::Client;

use super::{
    Bench, cli_tokens, median, otp_creation,
    refresh::{self, Holder},
    search, search_quota,
};
use crate::{say, say_error};

const SIZES: [u32; 3] = [10_000, 1_000_000, 10_000_000];
/// What the largest table may leave of the rate with the smallest.
const MIN_RATIO: f64 = 0.9;
/// The sessions of the user who lists them.
const SESSIONS: u32 = 20;
/// The CLI tokens of a round: all of the smallest table.
const CLI_TOKENS: u32 = 10_000;

/// A database, and a node that uses it.
struct SizedDatabase {
    rows: u32,
    settings: Settings,
    server: Process,
    client: Client,
}

/// The rates of an operation for each size.
pub(super) struct Grown {
    pub(super) name: &'static str,
    pub(super) sizes: Vec<Rates>,
}

pub(super) struct Rates {
    pub(super) rows: u32,
    /// Of each round.
    pub(super) per_second: Vec<f64>,
}

impl Grown {
    /// What the largest table leaves of the rate with the smallest: the median of the ratios of rounds.
    pub(super) fn ratio(&self) -> f64 {
        let (Some(first), Some(last)) = (self.sizes.first(), self.sizes.last()) else { return 0.0 };
        median(&last.per_second.iter().zip(&first.per_second).map(|(large, small)| large / small).collect::<Vec<_>>())
    }
}

pub(super) async fn measure(bench: &Bench, json: bool) -> Result<Vec<Grown>> {
    let sizes = if bench.quick { [1_000, 2_000, 5_000] } else { SIZES };
    let mut databases = Vec::new();
    for rows in sizes {
        databases.push(SizedDatabase::start(bench, rows).await?);
    }
    let mut all = Vec::new();
    let mut add = |grown: Grown| {
        report(&grown, json);
        all.push(grown);
    };
    add(refreshes(bench, &databases).await?);
    add(session_lists(bench, &databases).await?);
    add(cli_token_misses(bench, &databases).await?);
    add(otp_creations(bench, &databases).await?);
    add(searches(bench, &databases).await?);
    Ok(all)
}

/// Fails if an operation of a full run grew slower with its table.
pub(super) fn check(all: &[Grown]) -> Result<()> {
    let slower = all.iter().filter(|grown| grown.ratio() < MIN_RATIO);
    let slower: Vec<_> = slower.map(|grown| format!("{} × {:.2}", grown.name, grown.ratio())).collect();
    ensure!(slower.is_empty(), "slower with the largest table: {}", slower.join(", "));
    Ok(())
}

fn report(grown: &Grown, json: bool) {
    let rates: Vec<_> = grown.sizes.iter().map(|size| (size.rows, median(&size.per_second))).collect();
    if json {
        let rates: Vec<_> =
            rates.iter().map(|(rows, rate)| json!({ "rows": rows, "per_second": rate.round() })).collect();
        say(&json!({ "name": format!("growth_{}", grown.name), "sizes": rates, "ratio": grown.ratio() }).to_string());
    } else {
        let rates: Vec<_> = rates.iter().map(|(rows, rate)| format!("{rate:.0}/s with {rows}")).collect();
        say(&format!("growth_{:17} {}; ratio {:.2}", grown.name, rates.join(", "), grown.ratio()));
    }
}

impl SizedDatabase {
    async fn start(bench: &Bench, rows: u32) -> Result<Self> {
        let database = fresh_database(&bench.cluster).await?;
        let mut settings = Settings::complete(&bench.cluster.service_url(&database), &bench.mailbox)?;
        for (key, value) in [
            ("http.trusted_proxies", "127.0.0.1/32"),
            ("database.connections", "32"),
            ("log.filter", "warn,serviced=info"),
        ] {
            settings.set(key, value);
        }
        let server = Process::start(&bench.binary, &settings, &bench.leaks)?;
        let (client, connection) =
            tokio_postgres::connect(&bench.cluster.url(&database), tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        Ok(Self { rows, settings, server, client })
    }

    fn address(&self) -> Result<SocketAddr> {
        address(&self.server)
    }

    /// Runs statements that fill tables; each by itself, because a vacuum runs in no transaction.
    async fn fill(&self, statements: &str) -> Result<()> {
        for statement in statements.split_inclusive(';').filter(|statement| !statement.trim().is_empty()) {
            self.client
                .batch_execute(statement)
                .await
                .with_context(|| format!("cannot run {:.80}", statement.trim()))?;
        }
        Ok(())
    }
}

fn address(server: &Process) -> Result<SocketAddr> {
    Ok(server.http.url.trim_start_matches("http://").parse()?)
}

/// Measures an operation in alternating rounds. `run` gets a database and its place.
async fn alternate(
    bench: &Bench,
    databases: &[SizedDatabase],
    name: &'static str,
    run: impl AsyncFn(&SizedDatabase, usize) -> Result<f64>,
) -> Result<Grown> {
    let mut sizes: Vec<_> = databases.iter().map(|sized| Rates { rows: sized.rows, per_second: Vec::new() }).collect();
    for _ in 0..bench.rounds {
        for (place, (sized, rates)) in databases.iter().zip(&mut sizes).enumerate() {
            rates.per_second.push(run(sized, place).await.context(name)?);
        }
    }
    Ok(Grown { name, sizes })
}

fn filling(what: &str, sized: &SizedDatabase) {
    say_error(&format!("Filling a table with {} {what} …", sized.rows));
}

async fn refreshes(bench: &Bench, databases: &[SizedDatabase]) -> Result<Grown> {
    let mut holders = Vec::new();
    for sized in databases {
        filling("sessions", sized);
        refresh::fill_grants(&sized.client, sized.rows).await?;
        holders.push(Arc::new(Holder::new(&sized.settings, sized.rows, bench.connections)?));
    }
    alternate(bench, databases, "refresh", async |sized, place| {
        let holder = holders[place].clone();
        let request = move |connection, number| holder.request(connection, number);
        rate(&load::run(sized.address()?, bench.connections, bench.round, request).await?)
    })
    .await
}

/// Lists the sessions of one user among all of the refreshed ones.
async fn session_lists(bench: &Bench, databases: &[SizedDatabase]) -> Result<Grown> {
    let user = search::USER;
    let mut tokens = Vec::new();
    for sized in databases {
        tokens.push(search::prepare(&sized.settings, &sized.client).await?);
        sized
            .fill(&format!(
                "insert into grants (id, shard, user_id, client_id, scopes, audience, salt, base, issued, issued_key,
                                     rotated_at, rotated_from, created_at, created_from, expires_at)
                 select gen_random_uuid(), shard_of('{user}'), '{user}', '{SERVICE_CLI}', 'read', 'https://service.test/v1',
                        sha256(number::text::bytea), 0, 1, 1, now(), '127.0.0.1', now(), '127.0.0.1', now() + interval '300 days'
                   from generate_series(1, {SESSIONS}) as number;
                 vacuum analyze grants;"
            ))
            .await?;
    }
    let grown = alternate(bench, databases, "session_list", async |sized, place| {
        let request = get("/v1/sessions?limit=20", &tokens[place]);
        rate(&load::run(sized.address()?, bench.connections, bench.round, move |_, _| request.clone()).await?)
    })
    .await;
    empty(databases, "grants").await?;
    grown
}

/// Presents every token once to a node that has just started, and so has none in its cache.
async fn cli_token_misses(bench: &Bench, databases: &[SizedDatabase]) -> Result<Grown> {
    let mut tokens = Vec::new();
    for sized in databases {
        filling("CLI tokens", sized);
        let used = CLI_TOKENS.min(sized.rows);
        let made = cli_tokens::seed(&sized.client, usize::try_from(used)?, usize::try_from(sized.rows)?).await?;
        tokens.push(Arc::new(made.into_iter().map(|(_, token)| token).collect::<Vec<_>>()));
    }
    let grown = alternate(bench, databases, "cli_token_miss", async |sized, place| {
        let server = Process::start(&bench.binary, &sized.settings, &bench.leaks)?;
        let tokens = tokens[place].clone();
        let (connections, all) = (bench.connections, tokens.len() as u64);
        let request = move |connection: u64, number: u64| {
            let place = usize::try_from(connection + connections * number).unwrap_or_default();
            get("/v1/whoami", tokens.get(place).map_or("", String::as_str))
        };
        rate(&load::run_times(address(&server)?, connections, all / connections, 200, request).await?)
    })
    .await;
    empty(databases, "cli_tokens").await?;
    grown
}

/// Requests codes among those of others, and the limits that count them.
async fn otp_creations(bench: &Bench, databases: &[SizedDatabase]) -> Result<Grown> {
    for sized in databases {
        filling("codes, rates and recent requests each", sized);
        let rows = sized.rows;
        sized
            .fill(&format!(
                "insert into otps (address, client_id, context, id, shard, mac_key, mac, attempts, created_at, expires_at)
                 select 'other' || number || '@many.test', '', sha256(number::text::bytea), gen_random_uuid(), number % 4096, 1,
                        sha256(number::text::bytea), 0, now(), now() + interval '1 day'
                   from generate_series(1, {rows}) as number;
                 insert into rates (key, shard, tat)
                 select sha256(number::text::bytea), number % 4096, now() + interval '1 day' from generate_series(1, {rows}) as number;
                 insert into recent_hits (key, shard, hits, forget_at)
                 select sha256(number::text::bytea), number % 4096, array[now()], now() + interval '1 day'
                   from generate_series(1, {rows}) as number;
                 vacuum analyze otps; vacuum analyze rates; vacuum analyze recent_hits;"
            ))
            .await?;
    }
    let grown = alternate(bench, databases, "otp_creation", async |sized, _| {
        rate(&load::run(sized.address()?, bench.connections, bench.round, |_, _| otp_creation::request()).await?)
    })
    .await;
    empty(databases, "otps, rates, recent_hits, outbox").await?;
    grown
}

/// Searches a space at its quota, one search after the other, among packs of other spaces.
async fn searches(bench: &Bench, databases: &[SizedDatabase]) -> Result<Grown> {
    let mut tokens = Vec::new();
    for sized in databases {
        filling("packs of others", sized);
        tokens.push(search::prepare(&sized.settings, &sized.client).await?);
        search_quota::seed_among(&sized.client, if bench.quick { 500 } else { search_quota::PACKS }, sized.rows)
            .await?;
    }
    alternate(bench, databases, "search", async |sized, place| {
        let times = if bench.quick { 8 } else { 200 };
        let began = Instant::now();
        search::search(&sized.server.http, &tokens[place], &search_quota::QUERIES, times).await?;
        Ok(f64::from(u32::try_from(times)?) / began.elapsed().as_secs_f64())
    })
    .await
}

async fn empty(databases: &[SizedDatabase], tables: &str) -> Result<()> {
    for sized in databases {
        sized.fill(&format!("truncate {tables} cascade;")).await?;
    }
    Ok(())
}

fn get(path: &str, token: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: service.test\r\nAuthorization: Bearer {token}\r\n\r\n").into_bytes()
}

fn rate(seen: &load::Seen) -> Result<f64> {
    ensure!(seen.failures == 0, "{} of {} requests failed", seen.failures, seen.requests);
    Ok(seen.per_second())
}
