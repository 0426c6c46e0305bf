//! `cargo xtask engine-settings`: measures how many bytes of write-ahead log a refresh writes under settings of PostgreSQL.
//!
//! After a checkpoint the first change of a page logs the whole page. In a large table most refreshes are such changes, so
//! what compresses pages, and what makes checkpoints rare, decides how much is logged.

use anyhow::{Context as _, Result, ensure};
use service_testkit::{postgres::Cluster, server::fresh_database};
use tokio_postgres::{Client, NoTls};

use crate::{
    bench::{
        pgbench::{SHARD, fill, statement},
        refresh::{GRANTS, ID_PREFIX, seed},
    },
    say,
};

#[derive(clap::Args)]
pub(crate) struct EngineSettingsOptions {
    /// Rows of the table of sessions
    #[arg(long, default_value_t = 300_000, value_parser = clap::value_parser!(u32).range(100_000..))]
    grants: u32,
    /// Refreshes between two checkpoints, each of another session
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1_000..=100_000))]
    refreshes: u32,
}

const COMPRESSIONS: [&str; 2] = ["off", "lz4"];

pub(crate) fn run(options: &EngineSettingsOptions) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let cluster = Cluster::start_quiet()?;
        let database = fresh_database(&cluster).await?;
        let url = cluster.url(&database);
        say(&format!("{} sessions, {} refreshes after a checkpoint", options.grants, options.refreshes));
        for compression in COMPRESSIONS {
            // The same table each time: nothing is dead, and every session is at its first generation.
            seed(&url, options.grants).await?;
            let client = connect(&url).await?;
            client.batch_execute("alter system set autovacuum = off").await?;
            client.batch_execute(&format!("alter system set wal_compression = {compression}")).await?;
            client.batch_execute("select pg_reload_conf()").await?;
            // A new session has the new setting.
            let client = connect(&url).await?;
            let [cold, warm] = measure(&client, compression, options).await?;
            say(&format!(
                "wal_compression = {compression:3}  {cold:>5} bytes of WAL a refresh after a checkpoint, {warm:>4} on a page \
                 that was changed since"
            ));
        }
        Ok(())
    })
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    // Commits log the same whether they wait for the disk or not.
    client.batch_execute("set synchronous_commit = off").await?;
    Ok(client)
}

/// Refreshes sessions after a checkpoint, and the same ones again; returns the bytes of write-ahead log of one refresh.
async fn measure(client: &Client, compression: &str, options: &EngineSettingsOptions) -> Result<[u64; 2]> {
    let set: String = client.query_one("show wal_compression", &[]).await?.get(0);
    ensure!(set == compression, "wal_compression is {set} instead of {compression}: was PostgreSQL built without it?");
    let id = format!("('{ID_PREFIX}' || lpad(to_hex(@1::bigint), 12, '0'))::uuid");
    let values =
        [&id, "@2::int - 1", "@2::int", "@2::int", "@2::int + 1", "1::smallint", "now()", "'127.0.0.1'", SHARD];
    // Until the statement's own parameters are replaced, ours have another sign.
    let sql = fill(statement(GRANTS, "update grants set base")?, &values);
    let refresh = client.prepare(&sql.replace('@', "$")).await.context("the refresh cannot be prepared")?;
    client.batch_execute("checkpoint").await?;
    let mut bytes = [0; 2];
    for (generation, bytes) in (1_i32..).zip(&mut bytes) {
        let before = wal_position(client).await?;
        for number in 0..i64::from(options.refreshes) {
            // In no order, and none twice: 7919 is prime.
            let place = number * 7_919 % i64::from(options.grants);
            let changed = client.execute(&refresh, &[&place, &generation]).await?;
            ensure!(changed == 1, "session {place} is not at generation {generation}");
        }
        *bytes = (wal_position(client).await? - before) / u64::from(options.refreshes);
    }
    Ok(bytes)
}

async fn wal_position(client: &Client) -> Result<u64> {
    let row = client.query_one("select (pg_current_wal_insert_lsn() - '0/0')::bigint", &[]).await?;
    Ok(row.get::<_, i64>(0).unsigned_abs())
}
