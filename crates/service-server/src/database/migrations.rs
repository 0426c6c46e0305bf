//! Schema migrations, and checks of the database at the start.

use anyhow::{Context as _, bail};
use refinery::{Migration, Runner};

use crate::{config, database};

/// All migrations in order. A released migration is never changed.
const ALL: &[(&str, &str)] = &[
    ("V1__users", include_str!("../../migrations/0001_users.sql")),
    ("V2__workspaces", include_str!("../../migrations/0002_workspaces.sql")),
    ("V3__clients", include_str!("../../migrations/0003_clients.sql")),
    ("V4__sign_in", include_str!("../../migrations/0004_sign_in.sql")),
    ("V5__credentials", include_str!("../../migrations/0005_credentials.sql")),
    ("V6__revocations", include_str!("../../migrations/0006_revocations.sql")),
    ("V7__audit", include_str!("../../migrations/0007_audit.sql")),
    ("V8__contents", include_str!("../../migrations/0008_contents.sql")),
    ("V9__sso", include_str!("../../migrations/0009_sso.sql")),
];

/// The advisory lock for migrating. A second migration waits for the first.
const MIGRATION_LOCK: i64 = 0x5e72_1ce0_0001;

/// Migrates the database to the newest version; returns the names of the applied migrations.
pub async fn migrate(settings: &config::DatabaseConfig) -> anyhow::Result<Vec<String>> {
    let mut client = database::connect(settings).await?;
    client.batch_execute("set lock_timeout = 0; set statement_timeout = 0").await?;
    client
        .execute("select pg_advisory_lock($1)", &[&MIGRATION_LOCK])
        .await
        .context("could not take the migration lock")?;
    // Waiting for a busy table fails fast, because all readers would queue behind it.
    client.batch_execute("set lock_timeout = '2s'").await?;
    let report = runner()?.run_async(&mut client).await.context("a migration failed; nothing of it was applied")?;
    Ok(report.applied_migrations().iter().map(ToString::to_string).collect())
}

/// Fails if the database lacks a migration. A newer schema is accepted, because it occurs during a rolling upgrade.
pub async fn check(settings: &config::DatabaseConfig) -> anyhow::Result<()> {
    let mut client = database::connect(settings).await?;
    let runner = runner()?;
    let applied = runner.get_last_applied_migration_async(&mut client).await;
    let version = applied.ok().flatten().map_or(0, |migration| migration.version());
    let needed = runner.get_migrations().iter().map(Migration::version).max().unwrap_or_default();
    if version < needed {
        bail!("the schema is at version {version} and this serviced needs {needed}: run `serviced migrate` first");
    }
    Ok(())
}

/// Fails for a role that bypasses row-level security.
pub async fn check_role(settings: &config::DatabaseConfig) -> anyhow::Result<()> {
    let client = database::connect(settings).await?;
    let role = client
        .query_one(r"select rolname, rolsuper or rolbypassrls from pg_roles where rolname = current_user", &[])
        .await
        .context("could not look at the role in database.url")?;
    let (name, unbound): (String, bool) = (role.try_get(0)?, role.try_get(1)?);
    if unbound {
        bail!(
            "the role {name} in database.url is a superuser or has BYPASSRLS, so row-level security does not apply \
             to it: use a role without these attributes"
        );
    }
    Ok(())
}

/// Fails if the server can lose commits in a crash. Warns of risky settings that may be intended.
pub async fn check_durability(settings: &config::DatabaseConfig) -> anyhow::Result<()> {
    let client = database::connect(settings).await?;
    let row = client
        .query_one(
            r"select current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
                     exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
                              where n.nspname = current_schema() and c.relkind in ('r', 'p')
                                and pg_has_role(current_user, c.relowner, 'usage'))",
            &[],
        )
        .await
        .context("could not look at the settings of the database")?;
    let (fsync, full_page_writes, synchronous_commit): (&str, &str, &str) =
        (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    if fsync != "on" {
        bail!("fsync is {fsync} in the database, so a crash could lose revocations: turn it on");
    }
    if !database::commits_wait(synchronous_commit) {
        bail!(
            "synchronous_commit is {synchronous_commit} for the role in database.url, so revocations could be lost: \
             set it to on, also in the connection pooler"
        );
    }
    if full_page_writes != "on" {
        tracing::warn!("full_page_writes is off in the database: safe only if the storage never writes partial pages");
    }
    if row.try_get(3)? {
        tracing::warn!(
            "The role in database.url owns tables, so it can turn off their protections: use one role for `migrate` \
             and another for `run`"
        );
    }
    Ok(())
}

fn runner() -> anyhow::Result<Runner> {
    let migrations: Result<Vec<_>, _> = ALL.iter().map(|(name, sql)| Migration::unapplied(name, sql)).collect();
    Ok(Runner::new(&migrations?))
}
