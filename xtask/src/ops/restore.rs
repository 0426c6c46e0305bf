//! `cargo xtask ops restore`: loses the database after a revocation, and restores a backup from before it.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use service_testkit::postgres::{Cluster, Stop};
use service_testkit::server::fresh_database;
use tokio::time::sleep;

use super::backups::Backups;
use super::load::UserTokens;
use super::nodes::{DrillDatabase, Installation};
use super::report;
use crate::say_error;

const POLL_EVERY: Duration = Duration::from_millis(100);
const SIGNED_IN_WITHIN: Duration = Duration::from_secs(60);
const NOTICED_WITHIN: Duration = Duration::from_secs(30);

/// Nodes notice a restore if the newest heartbeat in the backup is more than ten minutes old.
const AGE_HEARTBEATS: &str = "update node_heartbeats set beat_at = beat_at - interval '11 minutes'";

pub(super) async fn run() -> Result<()> {
    let cluster = Cluster::start_quiet()?;
    let backups = Backups::begin(&cluster)?;
    let name = fresh_database(&cluster).await?;
    let database = DrillDatabase { url: cluster.service_url(&name), ca_file: None };
    let mut installation = Installation::start(&database).await?;
    let sessions: [UserTokens; 2] = installation.sign_in(2).await?.try_into().ok().context("two users")?;
    say_error("A backup, and a restore point after it");
    backups.run(&["backup", "--type=full"])?;
    for node in &mut installation.nodes {
        node.stop().await?;
    }
    backups.sql(&name, AGE_HEARTBEATS)?;
    backups.sql(&name, "select pg_create_restore_point('before_the_revocation')")?;
    let since = backups.sql(&name, "select clock_timestamp()")?;
    for node in &mut installation.nodes {
        node.start().await?;
    }
    installation.nodes.first().context("there is no node")?.revoke(&sessions[0]).await?;
    let copy = installation.directory.path().join("audit.jsonl");
    let events = format!("select row_to_json(e) from audit_events e where at > '{since}'");
    fs::write(&copy, backups.sql(&name, &events)? + "\n")?;
    let size = backups.sql(&name, "select pg_database_size(current_database())")?.parse::<u64>()?;
    let lost = lose(&cluster, &backups, &name)?;

    say_error("The database is lost, and restored");
    backups.run(&["restore", "--delta", "--type=name", "--target=before_the_revocation", "--target-action=promote"])?;
    cluster.resume()?;
    let restored = lost.at.elapsed();
    // One node kept running, the other is started on the restored database.
    if let Some(node) = installation.nodes.get_mut(1) {
        node.stop().await?;
        node.spawn()?;
    }
    until_fenced(&installation).await?;
    let mut accepted = accepted_by_any(&installation, &sessions).await;

    say_error("An operator finishes the restore");
    let copy = copy.to_str().context("the path is not UTF-8")?;
    installation.command(&["admin", "restore", "finish", "--audit-copy", copy]).await?;
    for node in &mut installation.nodes {
        node.stop().await?;
        node.start().await?;
    }
    until_signed_in(&installation).await?;
    let served = lost.at.elapsed();
    accepted += accepted_by_any(&installation, &sessions).await;
    check_not_refreshed(&installation, &sessions).await?;
    installation.command(&["admin", "audit", "verify"]).await?;
    let measured = json!({
        "drill": "restore",
        "database_bytes": size,
        "recovery_point_seconds": lost.unarchived,
        "database_restored_seconds": restored.as_secs_f64(),
        "recovery_time_seconds": served.as_secs_f64(),
        "fenced": true,
        "tokens_accepted": accepted,
        "audit_verified": true,
    });
    report(&measured, accepted == 0)
}

/// When the database was lost, and the seconds of its log that were not archived yet.
struct LostDatabase {
    at: Instant,
    unarchived: f64,
}

/// Archives what there is, and stops PostgreSQL as a crash does.
fn lose(cluster: &Cluster, backups: &Backups<'_>, name: &str) -> Result<LostDatabase> {
    let current = backups.sql(name, "select pg_walfile_name(pg_switch_wal())")?;
    let began = Instant::now();
    let archived = format!("select last_archived_wal >= '{current}' from pg_stat_archiver");
    while backups.sql(name, &archived)? != "t" {
        ensure!(began.elapsed() < NOTICED_WITHIN, "the log is not archived");
    }
    let age = "select extract(epoch from clock_timestamp() - last_archived_time) from pg_stat_archiver";
    let unarchived = backups.sql(name, age)?.parse()?;
    cluster.stop(Stop::Immediate)?;
    Ok(LostDatabase { at: Instant::now(), unarchived })
}

/// Waits until both nodes say that the database looks restored.
async fn until_fenced(installation: &Installation) -> Result<()> {
    let began = Instant::now();
    for node in &installation.nodes {
        while !node.readiness().await.contains("looks restored") {
            ensure!(began.elapsed() < NOTICED_WITHIN, "a node does not notice the restore: {}", node.readiness().await);
            sleep(POLL_EVERY).await;
        }
    }
    Ok(())
}

/// Waits until a user can sign in: not in the first seconds after all sessions were revoked, because clocks may differ.
async fn until_signed_in(installation: &Installation) -> Result<()> {
    let began = Instant::now();
    // Another user each time, because codes for one are limited.
    for number in 0.. {
        match installation.sign_in_as(&format!("after{number}@acme.test")).await {
            Ok(_) => break,
            Err(error) if began.elapsed() > SIGNED_IN_WITHIN => return Err(error.context("no user can sign in")),
            Err(_) => sleep(Duration::from_secs(1)).await,
        }
    }
    Ok(())
}

/// No session from before the restore can be refreshed, whether it was revoked or not.
async fn check_not_refreshed(installation: &Installation, sessions: &[UserTokens]) -> Result<()> {
    for node in &installation.nodes {
        for session in sessions {
            ensure!(node.refreshes(session).await.is_err(), "a session from before the restore is refreshed");
        }
    }
    Ok(())
}

/// How many of the sessions a node accepts.
async fn accepted_by_any(installation: &Installation, sessions: &[UserTokens]) -> usize {
    let mut accepted = 0;
    for node in &installation.nodes {
        for session in sessions {
            accepted += usize::from(node.accepts(session).await);
        }
    }
    accepted
}
