//! The schema: which migrations there are, and bringing a database up to them.

use anyhow::{Context as _, bail};
use refinery::{Migration, Runner};

use crate::{config, database};

/// In order; a migration that has landed is never changed.
const ALL: [(&str, &str); 9] = [
    ("V1__people", include_str!("../migrations/0001_people.sql")),
    ("V2__sign_in", include_str!("../migrations/0002_sign_in.sql")),
    ("V3__signing_keys", include_str!("../migrations/0003_signing_keys.sql")),
    ("V4__sessions", include_str!("../migrations/0004_sessions.sql")),
    ("V5__cli_tokens", include_str!("../migrations/0005_cli_tokens.sql")),
    ("V6__audit", include_str!("../migrations/0006_audit.sql")),
    ("V7__browser", include_str!("../migrations/0007_browser.sql")),
    ("V8__contents", include_str!("../migrations/0008_contents.sql")),
    ("V9__deletions", include_str!("../migrations/0009_deletions.sql")),
];

/// Held by whoever migrates, so that of two at once the second waits.
const LOCK: i64 = 0x5e72_1ce0_0001;

/// Brings the database up to date; returns the names of what was applied.
pub async fn migrate(settings: &config::Database) -> anyhow::Result<Vec<String>> {
    let mut client = database::connect(settings).await?;
    client.batch_execute("set lock_timeout = 0; set statement_timeout = 0").await?;
    client.execute("select pg_advisory_lock($1)", &[&LOCK]).await.context("could not take the migration lock")?;
    // A wait for a busy table fails fast instead of making every reader wait behind it.
    client.batch_execute("set lock_timeout = '2s'").await?;
    let report = runner()?.run_async(&mut client).await.context("a migration failed; nothing of it was applied")?;
    Ok(report.applied_migrations().iter().map(ToString::to_string).collect())
}

/// Refuses a database that lacks a migration; one that is ahead is fine, as it is during a rolling upgrade.
pub async fn check(settings: &config::Database) -> anyhow::Result<()> {
    let mut client = database::connect(settings).await?;
    let applied = runner()?.get_last_applied_migration_async(&mut client).await;
    let version = applied.ok().flatten().map_or(0, |migration| migration.version());
    let needed = i64::try_from(ALL.len()).unwrap_or(i64::MAX);
    if i64::from(version) < needed {
        bail!("the schema is at version {version} and this serviced needs {needed}: run `serviced migrate` first");
    }
    Ok(())
}

/// Refuses a role that the database's own fences do not hold for: row-level security would be there in name only.
pub async fn check_role(settings: &config::Database) -> anyhow::Result<()> {
    let client = database::connect(settings).await?;
    let role = client
        .query_one(r"select rolname, rolsuper or rolbypassrls from pg_roles where rolname = current_user", &[])
        .await
        .context("could not look at the role in database.url")?;
    let (name, unbound): (String, bool) = (role.try_get(0)?, role.try_get(1)?);
    if unbound {
        bail!(
            "the role {name} in database.url is a superuser or has BYPASSRLS, so row-level security does not hold for \
             it: give serviced a role of its own, which may own the database and is nothing more"
        );
    }
    Ok(())
}

fn runner() -> anyhow::Result<Runner> {
    let migrations: Result<Vec<_>, _> = ALL.iter().map(|(name, sql)| Migration::unapplied(name, sql)).collect();
    Ok(Runner::new(&migrations?))
}
