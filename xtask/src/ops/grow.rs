//! `cargo xtask ops grow`: a node whose clock is turned by hundreds of days, while the same few users work every day. What is
//! stored does not depend on how many days that was.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, Result, ensure};
use jiff::SignedDuration;
use serde_json::json;
use service_server::app::App;
use service_server::clock::Clock;
use service_server::server::Server;
use service_server::tasks::housekeeping;
use service_server::telemetry;
use service_testkit::leaks::Leaks;
use service_testkit::mailbox::Mailbox;
use service_testkit::postgres::Cluster;
use service_testkit::response::TestClient;
use service_testkit::server::{config, fresh_database};
use service_testkit::settings::Settings;
use tokio_postgres::{Client, NoTls};

use super::grow_day::spend_day;
use super::grow_users::UsersOfDays;
use super::report;
use crate::{root, say_error};

/// The days end in the past: PostgreSQL drops no month of audit events that ended less than 30 days ago by its own clock.
const DAYS_AFTER: u32 = 40;
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Audit events are kept for 400 days by default, which is as long as the drill takes. They are kept in whole months.
const AUDIT_KEEP_DAYS: &str = "90";

/// How much more rows a table may have at the end than halfway: a tenth, and a few.
const MORE_ROWS_PERCENT: u64 = 10;
const FEW_ROWS: u64 = 10;

/// Tables that stay empty, because the drill has no identity provider, no client with a key of its own, no operator, and no mail
/// that bounces. The test `operations::expiry` fills and empties them.
const NOT_FILLED: [&str; 11] = [
    "blocked_client_hosts",
    "client_assertions",
    "connections",
    "identities",
    "logout_tokens",
    "routed_domains",
    "support_clients",
    "suppressed_addresses",
    "trusted_issuers",
    "user_connections",
    "workspace_domains",
];

const TABLES: &str = "select relname::text from pg_class
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
      and relname <> 'refinery_schema_history'";

#[derive(clap::Args)]
pub(crate) struct GrowOptions {
    /// How many days pass. Nothing but audit events and keys is kept for longer than 150 days, so fewer than 300 say little
    #[arg(long, default_value_t = 400)]
    days: u32,
}

pub(super) async fn run(options: &GrowOptions) -> Result<()> {
    let quarter = options.days / 4;
    ensure!(quarter > 0, "too few days");
    let cluster = Cluster::start_quiet()?;
    let database = fresh_database(&cluster).await?;
    let mailbox = Mailbox::start().await?;
    let mut settings = Settings::complete(&cluster.service_url(&database), &mailbox)?;
    settings.set("audit.keep_days", AUDIT_KEEP_DAYS);
    settings.set("log.filter", "warn");
    let clock = Clock::manual(Clock::System.now() - DAY * i32::try_from(4 * quarter + DAYS_AFTER)?);
    let config = config(&settings)?;
    let _log = telemetry::start_log(&config.log)?;
    let server = Server::start(config, clock).await?;
    let http = TestClient::new(format!("http://{}", server.address), Leaks::default())?;
    let db = connect(&cluster.url(&database)).await?;

    let mut users = UsersOfDays::new(http, mailbox);
    let mut quarters = Vec::new();
    for day in 1..=4 * quarter {
        spend_day(&mut users, day).await.with_context(|| format!("day {day}"))?;
        end_day(&server.app).await?;
        if day % quarter == 0 {
            quarters.push(count_rows(&db).await?);
            say_error(&format!("day {day}"));
        }
    }
    let never_filled = never_filled(&db).await?;
    server.run_until(std::future::ready(())).await?;
    judge(&quarters, &never_filled, 4 * quarter)
}

/// A night: uses and events are written, a day passes, and housekeeping deletes what has expired.
async fn end_day(app: &App) -> Result<()> {
    housekeeping::record_uses_once(app).await?;
    housekeeping::seal_all(app).await?;
    app.clock.advance(DAY);
    ensure!(housekeeping::clean_all(app).await, "housekeeping failed");
    Ok(())
}

/// Compares the rows of every table at the end with those halfway.
fn judge(quarters: &[BTreeMap<String, u64>], never_filled: &[String], days: u32) -> Result<()> {
    let (halfway, end) = quarters.get(1).zip(quarters.last()).context("no rows were counted")?;
    let for_ever = kept_for_ever()?;
    let (mut growing, mut growing_for_ever) = (BTreeMap::new(), BTreeMap::new());
    for (table, rows) in end {
        let counted: Vec<_> = quarters.iter().filter_map(|quarter| quarter.get(table)).collect();
        say_error(&format!("{table}: {counted:?}"));
        let before = halfway.get(table).copied().unwrap_or_default();
        if *rows <= before + before * MORE_ROWS_PERCENT / 100 + FEW_ROWS {
            continue;
        }
        if for_ever.contains(table) { &mut growing_for_ever } else { &mut growing }.insert(table, counted);
    }
    let forgotten: Vec<_> = never_filled.iter().filter(|table| !NOT_FILLED.contains(&table.as_str())).collect();
    let measured = json!({
        "drill": "grow",
        "days": days,
        "tables": end.len(),
        "rows_halfway": halfway.values().sum::<u64>(),
        "rows_at_end": end.values().sum::<u64>(),
        "growing": growing,
        "growing_for_ever": growing_for_ever,
        "never_filled": forgotten,
    });
    report(&measured, growing.is_empty() && forgotten.is_empty())
}

/// The tables into which no row was ever inserted.
async fn never_filled(db: &Client) -> Result<Vec<String>> {
    let counted = count_rows(db).await?;
    let inserted = db.query("select relname::text from pg_stat_user_tables where n_tup_ins > 0", &[]).await?;
    let inserted = inserted.iter().map(|row| row.try_get(0)).collect::<Result<BTreeSet<String>, _>>()?;
    let is_empty = |(table, rows): &(String, u64)| *rows == 0 && !inserted.contains(table);
    Ok(counted.into_iter().filter(is_empty).map(|(table, _)| table).collect())
}

/// Every table with its number of rows.
async fn count_rows(db: &Client) -> Result<BTreeMap<String, u64>> {
    let mut counted = BTreeMap::new();
    for row in db.query(TABLES, &[]).await? {
        let table: String = row.try_get(0)?;
        let rows: i64 = db.query_one(&format!("select count(*) from {table}"), &[]).await?.try_get(0)?;
        counted.insert(table, rows.unsigned_abs());
    }
    Ok(counted)
}

/// The tables whose rows stay for ever, by docs/retention.md.
fn kept_for_ever() -> Result<BTreeSet<String>> {
    let page = fs::read_to_string(root().join("docs/retention.md"))?;
    let section = page.split("## What does not expire").nth(1).and_then(|rest| rest.split("\n## ").next());
    let rows = section.context("docs/retention.md has no list of what does not expire")?.lines();
    let first_cells = rows.filter(|row| row.ends_with("| for ever |")).filter_map(|row| row.split(" | ").next());
    Ok(first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect())
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // It ends with the client.
    tokio::spawn(connection);
    Ok(client)
}
