//! Every statement of the store, prepared against the migrated schema before anything runs it.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use service_testkit::{postgres::Cluster, server::fresh_database};
use tokio_postgres::NoTls;

#[test]
fn every_statement_fits_the_schema() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let cluster = Cluster::shared()?;
        let database = fresh_database(cluster).await?;
        let (client, connection) = tokio_postgres::connect(&cluster.url(&database), NoTls).await?;
        let driving = tokio::spawn(connection);
        let mut prepared = 0;
        for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store"))? {
            let path = entry?.path();
            for statement in statements(&fs::read_to_string(&path)?) {
                client.prepare(&statement).await.with_context(|| format!("{}: {statement}", path.display()))?;
                prepared += 1;
            }
        }
        assert!(prepared >= 25, "only {prepared} statements were found: are they raw string literals?");
        drop(client);
        driving.await??;
        Ok(())
    })
}

/// The raw string literals of a file of the store: all of them are statements.
fn statements(source: &str) -> Vec<String> {
    let literals = source.split([' ', '(']).scan(0, |end, word| {
        let begin = *end;
        *end += word.len() + 1;
        Some((begin, word))
    });
    let begins = literals.filter(|(_, word)| word.trim_start().starts_with("r\""));
    begins.filter_map(|(begin, _)| source[begin..].split('"').nth(1)).map(str::to_owned).collect()
}
