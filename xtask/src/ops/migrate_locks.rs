//! `cargo xtask ops migrate-locks`: migrates a large database of the version before, while its nodes refresh sessions. The locks that
//! a migration takes are so short that users do not notice them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use reqwest::Client;
use serde_json::{Value, json};
use service_testkit::postgres::Cluster;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_postgres::NoTls;

use super::load::{Load, Tally};
use super::nodes::{DrillDatabase, Installation};
use super::report;
use super::upgrade::newest_version;
use crate::capacity::fill_users;
use crate::{build_server, revisions, say_error};

/// How many users of each node refresh.
const USERS: usize = 15;
/// How long requests are measured before the migration, and at least from its beginning on.
const MEASURED: Duration = Duration::from_secs(15);

/// The longest that a migration may hold a lock that keeps nodes from reading or writing a table.
const HELD: Duration = Duration::from_millis(200);
/// How much longer p99 of a refresh may be. Less than the floor is chance on a busy machine.
const P99_RATIO: f64 = 3.0;
const P99_FLOOR: f64 = 0.05;

const SAMPLE_EVERY: Duration = Duration::from_millis(10);

/// The locks of the session that migrates, by its advisory lock, on tables that were there before: others are not visible yet. All
/// of these modes keep nodes from writing.
const LOCKS: &str = "
    select c.relname::text, l.mode, l.granted
      from pg_locks l join pg_class c on c.oid = l.relation and c.relkind in ('r', 'p')
     where l.locktype = 'relation' and c.relnamespace = 'public'::regnamespace
       and l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
       and l.pid in (select pid from pg_locks
                      where locktype = 'advisory' and classid = x'5e72'::int::oid and objid = x'1ce00001'::int::oid and granted)";

#[derive(clap::Args)]
pub(crate) struct MigrateLocksOptions {
    /// The commit to migrate from. By default the one that closed the newest version of CHANGELOG.md
    #[arg(long, value_name = "COMMIT")]
    from: Option<String>,
    /// How many users the database has, each with an address and a session
    #[arg(long, default_value_t = 1_000_000)]
    users: u32,
    /// Requests per second, half of them refreshes
    #[arg(long, default_value_t = 100)]
    rate: u32,
}

pub(super) async fn run(options: &MigrateLocksOptions) -> Result<()> {
    let commit = options.from.clone().map_or_else(newest_version, Ok)?;
    let release = !cfg!(debug_assertions);
    let (before, now) = (revisions::build(&commit, release)?, build_server(release)?);
    let cluster = Cluster::start_quiet()?;
    cluster.create_database("service", None).await?;
    let database = DrillDatabase { url: cluster.service_url("service"), ca_file: None };
    let mut installation = Installation::prepare(&database).await?;
    installation.use_program(&before);
    installation.command(&["migrate"]).await?;
    let db = connect(&cluster.url("service")).await?;
    say_error(&format!("{} users", options.users));
    fill_users(&db, options.users).await?;
    db.batch_execute("checkpoint").await?;
    let old_version = schema_version(&db).await?;

    for node in &mut installation.nodes {
        node.start().await?;
    }
    let loads = start_loads(&installation, options.rate).await?;
    sleep(MEASURED).await;
    say_error("Migrating");
    let (locks, began) = (LockWatch::start(&cluster.url("service")).await?, Instant::now());
    installation.use_program(&now);
    installation.command(&["migrate"]).await?;
    let took = began.elapsed();
    sleep(MEASURED.saturating_sub(took)).await;
    let locks = locks.stop().await?;
    let mut tally = Tally::default();
    for load in loads {
        tally.add(load.stop().await?);
    }

    let migrations = schema_version(&db).await? - old_version;
    if migrations == 0 {
        say_error(&format!("No migration is newer than {commit}: only the command itself was measured"));
    }
    let (p99_before, p99_during) = (p99(&tally, |at| at < began)?, p99(&tally, |at| at >= began)?);
    let measured = json!({
        "drill": "migrate-locks",
        "from": commit,
        "migrations": migrations,
        "users": options.users,
        "migrate_seconds": took.as_secs_f64(),
        "locks": locks.longest(),
        "slowest_sample_seconds": locks.slowest_sample.as_secs_f64(),
        "refreshes": tally.refreshes,
        "failures": tally.failures,
        "p99_before_seconds": p99_before,
        "p99_during_seconds": p99_during,
    });
    let in_time = p99_during <= (P99_RATIO * p99_before).max(P99_FLOOR);
    report(&measured, in_time && locks.held.values().all(|lock| lock.longest <= HELD) && tally.failed() == 0)
}

async fn start_loads(installation: &Installation, rate: u32) -> Result<Vec<Load>> {
    let per_node = (rate / u32::try_from(installation.nodes.len())?).max(1);
    let mut loads = Vec::new();
    for node in &installation.nodes {
        let sessions = installation.sign_in(USERS).await?;
        loads.push(Load::start(&Client::new(), &node.http.url, sessions, per_node));
    }
    Ok(loads)
}

/// Returns p99 of the refreshes that began at these moments, in seconds.
fn p99(tally: &Tally, when: impl Fn(Instant) -> bool) -> Result<f64> {
    let measured = tally.refresh_times.iter().filter(|time| when(time.began));
    let mut seconds: Vec<_> = measured.map(|time| time.took.as_secs_f64()).collect();
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() * 99 / 100).copied().context("no refresh was measured")
}

async fn schema_version(db: &tokio_postgres::Client) -> Result<i32> {
    Ok(db.query_one("select max(version) from refinery_schema_history", &[]).await?.try_get(0)?)
}

async fn connect(url: &str) -> Result<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // It ends with the client.
    tokio::spawn(connection);
    Ok(client)
}

/// Looks every few milliseconds at the locks of the session that migrates.
struct LockWatch {
    stop: watch::Sender<bool>,
    watching: JoinHandle<Result<SeenLocks>>,
}

/// What was seen of locks, by table, mode, and whether the lock was held or waited for.
#[derive(Default)]
struct SeenLocks {
    held: BTreeMap<String, SeenLock>,
    slowest_sample: Duration,
}

struct SeenLock {
    since: Instant,
    last: Instant,
    longest: Duration,
}

impl LockWatch {
    async fn start(url: &str) -> Result<Self> {
        let (db, (stop, stopped)) = (connect(url).await?, watch::channel(false));
        Ok(Self { stop, watching: tokio::spawn(watch_locks(db, stopped)) })
    }

    async fn stop(self) -> Result<SeenLocks> {
        self.stop.send_replace(true);
        self.watching.await?
    }
}

async fn watch_locks(db: tokio_postgres::Client, stopped: watch::Receiver<bool>) -> Result<SeenLocks> {
    let (statement, mut seen, mut ticks) = (db.prepare(LOCKS).await?, SeenLocks::default(), interval(SAMPLE_EVERY));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut previous = Instant::now();
    while !*stopped.borrow() {
        ticks.tick().await;
        let rows = db.query(&statement, &[]).await?;
        let now = Instant::now();
        seen.slowest_sample = seen.slowest_sample.max(now - previous);
        for row in rows {
            let (table, mode, granted): (String, String, bool) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            let lock = format!("{table}: {mode} {}", if granted { "held" } else { "waited for" });
            let start = SeenLock { since: previous, last: previous, longest: Duration::ZERO };
            let lock = seen.held.entry(lock).or_insert(start);
            if lock.last < previous {
                lock.since = previous;
            }
            lock.last = now;
            // At most: it was not there yet in the sample before.
            lock.longest = lock.longest.max(now - lock.since);
        }
        previous = now;
    }
    Ok(seen)
}

impl SeenLocks {
    /// The longest time of each lock, in seconds.
    fn longest(&self) -> Value {
        self.held.iter().map(|(lock, seen)| (lock.clone(), json!(seen.longest.as_secs_f64()))).collect()
    }
}
