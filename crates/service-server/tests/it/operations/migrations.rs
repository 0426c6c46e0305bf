//! Migrations that are newer than the released version: its nodes run on the new schema, and no table of theirs is blocked for
//! long.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use service_testkit::postgres::Cluster;
use tokio_postgres::{Client, NoTls, Transaction};

const MIGRATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");

/// Everything that statements of a version rely on: a line for each column that they read or write, each constraint that they
/// satisfy, each index that they conflict on, and each function that they call.
const RELIED_ON: &str = "
    select format('column %s.%s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
                  case when a.attnotnull and not a.atthasdef and a.attidentity = '' then 'required' else 'optional' end)
      from pg_attribute a join pg_class c on c.oid = a.attrelid
     where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped
    union all
    select format('constraint %s.%s %s', r.relname, k.conname, pg_get_constraintdef(k.oid))
      from pg_constraint k join pg_class r on r.oid = k.conrelid where k.connamespace = 'public'::regnamespace
    union all
    select format('index %s', pg_get_indexdef(i.indexrelid))
      from pg_index i join pg_class r on r.oid = i.indrelid
     where i.indisunique and r.relnamespace = 'public'::regnamespace
    union all
    select format('function %s returns %s', p.oid::regprocedure, pg_get_function_result(p.oid))
      from pg_proc p where p.pronamespace = 'public'::regnamespace
    order by 1";

/// The locks of this transaction that keep others from writing to a table, beyond those that change its catalog entry only.
const BUILDING_LOCKS: &str = "
    select c.relname::text from pg_locks l join pg_class c on c.oid = l.relation
     where l.pid = pg_backend_pid() and l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock')";

/// The tables, with the file in which PostgreSQL stores each: it changes when the table is rewritten.
const FILES: &str = "
    select format('%s %s', c.relname, c.relfilenode) from pg_class c
     where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'";

/// The migrations in order, and how many of them are released.
fn migrations() -> Result<(Vec<(String, String)>, usize)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(MIGRATIONS)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "sql") {
            let name = path.file_name().and_then(|name| name.to_str()).context("not UTF-8")?.to_owned();
            files.push((name, fs::read_to_string(path)?));
        }
    }
    files.sort();
    let released = fs::read_to_string(Path::new(MIGRATIONS).join("released.sha256"))?.lines().count();
    Ok((files, released))
}

async fn lines(db: &Transaction<'_>, sql: &str) -> Result<BTreeSet<String>> {
    db.query(sql, &[]).await?.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// The name of the table that a line of [`RELIED_ON`] is about.
fn table_of(line: &str) -> Option<&str> {
    match line.split_once(' ')? {
        ("column" | "constraint", rest) => rest.split('.').next(),
        ("index", definition) => definition.split(" ON public.").nth(1)?.split(' ').next(),
        _ => None,
    }
}

/// Fails if a node of the released version could not use the schema any more.
fn check(name: &str, before: &BTreeSet<String>, after: &BTreeSet<String>) -> Result<()> {
    let known: BTreeSet<_> = before.iter().filter_map(|line| table_of(line)).collect();
    let gone: Vec<_> = before.difference(after).collect();
    ensure!(gone.is_empty(), "{name} removes or changes what the released version uses: {gone:#?}");
    let is_demanding = |line: &&String| {
        let is_known = table_of(line).is_some_and(|table| known.contains(table));
        is_known && (!line.starts_with("column ") || line.ends_with(" required"))
    };
    let added: Vec<_> = after.difference(before).filter(is_demanding).collect();
    ensure!(added.is_empty(), "{name} demands what the released version does not write: {added:#?}");
    Ok(())
}

/// Applies a migration that is not released, and checks it.
async fn apply(db: &mut Client, name: &str, sql: &str) -> Result<()> {
    let db = db.transaction().await?;
    let (before, files) = (lines(&db, RELIED_ON).await?, lines(&db, FILES).await?);
    db.batch_execute(sql).await.with_context(|| name.to_owned())?;
    check(name, &before, &lines(&db, RELIED_ON).await?)?;
    let rewritten: Vec<_> = files.difference(&lines(&db, FILES).await?).cloned().collect();
    ensure!(rewritten.is_empty(), "{name} rewrites whole tables, which blocks them: {rewritten:?}");
    let tables: BTreeSet<_> = files.iter().filter_map(|line| line.split(' ').next()).collect();
    let locked = lines(&db, BUILDING_LOCKS).await?;
    let locked: Vec<_> = locked.iter().filter(|table| tables.contains(table.as_str())).collect();
    ensure!(locked.is_empty(), "{name} reads whole tables under a lock, for example for an index: {locked:?}");
    Ok(db.commit().await?)
}

/// A database with the schema of the released version, and the migrations that are newer.
async fn released_schema(database: &str) -> Result<(Client, Vec<(String, String)>)> {
    let cluster = Cluster::shared()?;
    cluster.create_database(database, None).await?;
    let (client, connection) = tokio_postgres::connect(&cluster.url(database), NoTls).await?;
    tokio::spawn(connection);
    let (mut released, count) = migrations()?;
    let newer = released.split_off(count);
    for (name, sql) in &released {
        client.batch_execute(sql).await.with_context(|| name.clone())?;
    }
    Ok((client, newer))
}

fn run(test: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(test)
}

#[test]
fn the_released_version_runs_on_the_newest_schema() -> Result<()> {
    run(async {
        let (mut db, newer) = released_schema("newest_schema").await?;
        for (name, sql) in &newer {
            apply(&mut db, name, sql).await?;
        }
        Ok(())
    })
}

#[test]
fn a_migration_that_breaks_the_released_version_is_found() -> Result<()> {
    run(async {
        let (mut db, _) = released_schema("broken_schemas").await?;
        for (sql, because) in [
            ("alter table outbox drop column attempts", "removes or changes"),
            ("alter table outbox rename to mails", "removes or changes"),
            ("alter table outbox alter column attempts type integer", "removes or changes"),
            ("alter table outbox add column kind text not null", "demands what"),
            ("alter table outbox add constraint few check (attempts < 9)", "demands what"),
            ("create unique index outbox_once on outbox (sealed, shard)", "demands what"),
            ("create index outbox_by_attempts on outbox (attempts)", "under a lock"),
            ("alter table outbox add column drawn float8 default random()", "rewrites"),
        ] {
            let refused = apply(&mut db, "0099_bad.sql", sql).await.err().context(sql)?;
            ensure!(refused.to_string().contains(because), "{sql}: {refused:#}");
        }
        for sql in [
            "alter table outbox add column kind text",
            "alter table outbox add column tries integer not null default 0",
            "create table others (id uuid primary key); create index others_by_id on others (id)",
        ] {
            apply(&mut db, "0099_good.sql", sql).await.context(sql)?;
        }
        Ok(())
    })
}
