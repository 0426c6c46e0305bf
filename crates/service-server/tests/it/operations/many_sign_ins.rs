//! Many sign-ins: shards are drawn evenly, what belongs to a user is in the user's shard, and the shard of an address tells
//! nothing about the shard of its user.

use std::{path::Path, time::Instant};

use anyhow::{Context as _, Result, ensure};
use reqwest::Method;
use serde_json::json;
use service_api::{
    ids::{CliTokenId, Id as _, OtpId},
    shard::Shard,
};
use service_testkit::{
    leaks::Leaks,
    mailbox::Mailbox,
    postgres::Cluster,
    process::Process,
    response::TestClient,
    server::{fresh_database, otp_exchange, request_code, signed_in},
    settings::Settings,
    tab::Tab,
};
use tokio::task::JoinSet;
use tokio_postgres::Client;

use crate::support::failover::connect;

/// How many users sign in, unless `SERVICE_TEST_SIGN_INS` says otherwise: `cargo xtask nightly` has 10,000.
const SIGN_INS: usize = 200;
const AT_ONCE: usize = 20;
/// One user of this many also signs in with a browser.
const BY_BROWSER: usize = 20;
/// How far a figure may be from its expectation, in standard deviations.
const FAR: f64 = 5.0;

/// The lengths that tokens had before they carried a shard.
const REFRESH_TOKEN_LENGTH: usize = 85;
const CLI_TOKEN_LENGTH: usize = 79;
const COOKIE_LENGTH: usize = 57;

/// Rows whose owner is a user, and the column whose shard they must be in.
const OWNED: [(&str, &str); 7] = [
    ("users", "id"),
    ("grants", "id"),
    ("grants", "user_id"),
    ("cli_tokens", "id"),
    ("cli_tokens", "user_id"),
    ("browser_sessions", "id"),
    ("browser_sessions", "user_id"),
];

#[expect(clippy::disallowed_methods, reason = "a setting of the tests, not of the service")]
fn sign_ins() -> Result<usize> {
    std::env::var("SERVICE_TEST_SIGN_INS").map_or(Ok(SIGN_INS), |count| Ok(count.parse()?))
}

/// The shards of a code and of the user who signed in with it.
struct Shards {
    code: usize,
    user: usize,
}

fn place(shard: Shard) -> usize {
    usize::from(shard.number().unsigned_abs())
}

async fn sign_in(http: TestClient, mailbox: Mailbox, number: usize) -> Result<Shards> {
    let (email, leaks) = (format!("user{number}@acme.test"), Leaks::default());
    let (otp_id, code) = request_code(&http, &mailbox, &leaks, &email).await?;
    let user = signed_in(&http.post("/oauth/token", &otp_exchange(&otp_id, &code, "read write")).await?)?;
    let request = http.request(Method::POST, "/v1/cli/tokens").bearer_auth(&user.access_token);
    let made = http.send(request.json(&json!({ "name": "CI", "scopes": ["read"] }))).await?;
    ensure!(made.status == 201, "{}", made.text);
    assert_eq!(user.refresh_token.len(), REFRESH_TOKEN_LENGTH);
    assert_eq!(made.field("access_token").len(), CLI_TOKEN_LENGTH);
    let cli_token: CliTokenId = made.field("id").parse()?;
    let shard = user.user_id.shard();
    assert_eq!((user.grant_id.shard(), cli_token.shard()), (shard, shard));
    if number.is_multiple_of(BY_BROWSER) {
        let tab = Tab::at(&http.url, &leaks)?;
        let begun = tab.get("/sign-in").await?;
        tab.sign_in(&mailbox, begun.next()?, &email).await?;
        assert_eq!(tab.cookie().map(|cookie| cookie.len()), Some(COOKIE_LENGTH));
    }
    Ok(Shards { code: place(otp_id.parse::<OtpId>()?.shard()), user: place(shard) })
}

/// How far counts are from an even spread: a chi-square by the approximation of Wilson and Hilferty, in standard
/// deviations.
#[expect(clippy::cast_precision_loss, reason = "there are not that many")]
fn deviation(counts: &[usize]) -> f64 {
    let expected = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
    let square: f64 = counts.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum();
    let freedom = (counts.len() - 1) as f64;
    let part = 2.0 / (9.0 * freedom);
    ((square / freedom).cbrt() - (1.0 - part)) / part.sqrt()
}

fn counts(buckets: usize, places: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut counts = vec![0; buckets];
    places.for_each(|place| counts[place] += 1);
    counts
}

/// The largest power of two, 4096 at most, of which each part gets this many of `all` on average.
fn parts(all: usize, each: usize) -> usize {
    (0..=12).map(|bits| 1 << bits).rfind(|parts| all / parts >= each).unwrap_or(1)
}

/// Checks that shards are even in their first and last bits, and that those of codes and users are independent. Returns the
/// figures.
fn check_spread(shards: &[Shards]) -> String {
    let all = usize::from(Shard::COUNT);
    let buckets = parts(shards.len(), 2);
    let first = deviation(&counts(buckets, shards.iter().map(|shards| shards.user * buckets / all)));
    let last = deviation(&counts(buckets, shards.iter().map(|shards| shards.user % buckets)));
    let codes = deviation(&counts(buckets, shards.iter().map(|shards| shards.code * buckets / all)));
    let side = parts(shards.len(), 10).isqrt();
    let side = 1 << side.ilog2();
    let pair = |shards: &Shards| shards.code * side / all * side + shards.user * side / all;
    let pairs = deviation(&counts(side * side, shards.iter().map(pair)));
    let equal = shards.iter().filter(|shards| shards.code == shards.user).count();
    let figures = format!(
        "{} sign-ins in {buckets} parts: users' shards {first:+.2} σ by their first bits and {last:+.2} σ by their last, \
         codes' {codes:+.2} σ; pairs of code and user in {side} × {side} parts {pairs:+.2} σ; {equal} pairs equal",
        shards.len()
    );
    for (what, deviation) in [("first bits", first), ("last bits", last), ("codes", codes), ("pairs", pairs)] {
        assert!(deviation.abs() < FAR, "{what} are {deviation} σ from even");
    }
    // By chance one pair of 4096 is equal. Five more than twice that do not come by chance.
    assert!(equal <= 5 + 2 * shards.len() / all, "the shard of an address is the shard of its user");
    figures
}

async fn check_rows(client: &Client, sign_ins: usize) -> Result<()> {
    for (table, column) in OWNED {
        let sql = format!(
            "select count(*), count(*) filter (where shard <> shard_of({column})) from {table} where {column} is not null"
        );
        let row = client.query_one(&sql, &[]).await?;
        let (rows, wrong): (i64, i64) = (row.get(0), row.get(1));
        assert_eq!(wrong, 0, "{wrong} of {rows} rows of {table} are in another shard than their {column}");
        let at_least = if table == "browser_sessions" { sign_ins / BY_BROWSER } else { sign_ins };
        assert!(usize::try_from(rows)? >= at_least, "{table} has {rows} rows");
    }
    for table in ["users", "grants", "cli_tokens"] {
        let sql = format!(
            "select count(*) from
                 (select id, lag(id) over (order by date_trunc('milliseconds', created_at), id) as before from {table}) t
              where before > id"
        );
        let unordered: i64 = client.query_one(&sql, &[]).await?.get(0);
        assert_eq!(unordered, 0, "ids of {table} do not sort by time");
    }
    let elsewhere = "select count(*) from grants g where not exists
                         (select from users u where u.id = g.user_id and u.shard = g.shard)";
    assert_eq!(client.query_one(elsewhere, &[]).await?.get::<_, i64>(0), 0);
    Ok(())
}

#[test]
fn shards_are_even_and_tell_nothing_about_addresses() -> Result<()> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let (count, cluster, mailbox) = (sign_ins()?, Cluster::start_quiet()?, Mailbox::start().await?);
        let database = fresh_database(&cluster).await?;
        let mut settings = Settings::complete(&cluster.service_url(&database), &mailbox)?;
        settings.set("limits.otp_failures", "1000000+1000000");
        let node = Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), &settings, &Leaks::default())?;
        let (began, mut shards) = (Instant::now(), Vec::new());
        for first in (0..count).step_by(AT_ONCE) {
            let mut tasks = JoinSet::new();
            // The kit remembers all secrets that its client saw, and all mails.
            let http = TestClient::new(node.http.url.clone(), Leaks::default())?;
            for number in first..count.min(first + AT_ONCE) {
                tasks.spawn(sign_in(http.clone(), mailbox.clone(), number));
            }
            while let Some(signed_in) = tasks.join_next().await {
                shards.push(signed_in?.context("a sign-in failed")?);
            }
            mailbox.clear();
        }
        println!("{count} sign-ins in {:?}", began.elapsed());
        println!("{}", check_spread(&shards));
        check_rows(&connect(&cluster, &database).await?, count).await
    })
}
