//! Schema migrations, and checks of the database at the start.

use anyhow::{Context as _, bail};
use refinery::{Migration, Runner, Target};

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
    ("V10__browser_origins", include_str!("../../migrations/0010_browser_origins.sql")),
    ("V11__client_links", include_str!("../../migrations/0011_client_links.sql")),
    ("V12__suppressed_addresses", include_str!("../../migrations/0012_suppressed_addresses.sql")),
    ("V13__support_clients", include_str!("../../migrations/0013_support_clients.sql")),
    ("V14__passkeys", include_str!("../../migrations/0014_passkeys.sql")),
    ("V15__sign_in_reports", include_str!("../../migrations/0015_sign_in_reports.sql")),
    ("V16__account_exports", include_str!("../../migrations/0016_account_exports.sql")),
    ("V17__recovery_codes", include_str!("../../migrations/0017_recovery_codes.sql")),
    ("V18__account_deletions", include_str!("../../migrations/0018_account_deletions.sql")),
    ("V19__person_names", include_str!("../../migrations/0019_person_names.sql")),
    ("V20__address_changes", include_str!("../../migrations/0020_address_changes.sql")),
    ("V21__passkey_requirement", include_str!("../../migrations/0021_passkey_requirement.sql")),
    ("V22__workspace_passkeys", include_str!("../../migrations/0022_workspace_passkeys.sql")),
];

/// The advisory lock for migrating. A second migration waits for the first.
const MIGRATION_LOCK: i64 = 0x5e72_1ce0_0001;

/// What a migration does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationStep<'a> {
    /// Another migration of this database is running.
    WaitingForLock,
    Applying {
        name: &'a str,
        number: usize,
        total: usize,
    },
}

/// Migrates the database to the newest version; returns the names of the applied migrations.
pub async fn migrate(settings: &config::DatabaseConfig) -> anyhow::Result<Vec<String>> {
    migrate_with_progress(settings, |_| {}).await
}

/// Migrates the database to the newest version, and calls `progress` before each step; returns the names of the applied
/// migrations.
pub async fn migrate_with_progress(
    settings: &config::DatabaseConfig,
    mut progress: impl FnMut(MigrationStep<'_>),
) -> anyhow::Result<Vec<String>> {
    let mut client = database::connect(settings).await?;
    client.batch_execute("set lock_timeout = 0; set statement_timeout = 0").await?;
    let lock = client.query_one("select pg_try_advisory_lock($1)", &[&MIGRATION_LOCK]).await;
    if !lock.context("could not take the migration lock")?.try_get::<_, bool>(0)? {
        progress(MigrationStep::WaitingForLock);
        client
            .execute("select pg_advisory_lock($1)", &[&MIGRATION_LOCK])
            .await
            .context("could not take the migration lock")?;
    }
    // Waiting for a busy table fails fast, because all readers would queue behind it.
    client.batch_execute("set lock_timeout = '2s'").await?;
    let all = runner()?;
    let last = all.get_last_applied_migration_async(&mut client).await;
    let version = last.ok().flatten().map_or(0, |migration| migration.version());
    let pending: Vec<_> = all.get_migrations().iter().filter(|migration| migration.version() > version).collect();
    let mut applied = Vec::new();
    for (number, migration) in (1..).zip(&pending) {
        progress(MigrationStep::Applying { name: &migration.to_string(), number, total: pending.len() });
        let runner = runner()?.set_target(Target::Version(migration.version()));
        applied.extend(apply(&runner, &mut client).await?);
    }
    // Also without a pending one, because it compares those that were applied before.
    applied.extend(apply(&all, &mut client).await?);
    Ok(applied)
}

async fn apply(runner: &Runner, client: &mut tokio_postgres::Client) -> anyhow::Result<Vec<String>> {
    let report = runner.run_async(client).await.context("a migration failed; nothing of it was applied")?;
    Ok(report.applied_migrations().iter().map(ToString::to_string).collect())
}

/// Fails if the database lacks a migration. A newer schema is accepted, because it occurs during a rolling upgrade.
pub async fn check(settings: &config::DatabaseConfig) -> anyhow::Result<()> {
    let mut client = database::connect(settings).await?;
    let runner = runner()?;
    let applied = runner.get_last_applied_migration_async(&mut client).await;
    if client.is_closed() {
        return Err(database::Error::Unavailable("the connection broke".into()).into());
    }
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

#[cfg(test)]
mod tests {
    use super::ALL;
    use crate::crypto::digest::sha256;

    /// What `sha256sum` prints for the migrations of released versions.
    const RELEASED: &str = include_str!("../../migrations/released.sha256");

    #[test]
    fn released_migrations_never_change() {
        assert!(RELEASED.lines().count() <= ALL.len(), "a released migration is gone");
        for ((name, sql), line) in ALL.iter().zip(RELEASED.lines()) {
            let released = (0..32).map(|at| u8::from_str_radix(&line[2 * at..2 * at + 2], 16).expect("a checksum"));
            let released: Vec<_> = released.collect();
            assert_eq!(sha256(sql), released[..], "{name} was released and has changed: add another migration instead");
        }
    }
}
