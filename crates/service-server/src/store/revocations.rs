//! Table `revocations`: credentials that were revoked before they expire. Every node follows this table.

use service_api::{
    errors::Reason,
    ids::{CliTokenId, GrantId, Id as _, RevocationId, UserId, WorkspaceId},
};
use service_rules::{
    Timestamp,
    revocation::{Revocation, Subject},
};
use tokio_postgres::Row;

use crate::database::{Connection, Error, Identity};

/// How far a node has read the table: over which connection, and which transactions it has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedPosition {
    /// The database server. It differs after a failover or a restore.
    pub server: Identity,
    /// The backend process that answered. It does not survive a crash, after which PostgreSQL may assign transaction
    /// numbers again.
    pub backend: String,
    pub snapshot: String,
}

/// The revocations that a read returned, and where the next read begins.
pub struct FeedBatch {
    pub revocations: Vec<Revocation>,
    pub position: FeedPosition,
    /// Whether it was read from a standby, which may lag.
    pub from_standby: bool,
    /// The newest heartbeat of any node; read on a standby only.
    pub newest_beat_at: Option<Timestamp>,
    /// The time of the database.
    pub database_time: Timestamp,
}

/// Stores a revocation.
pub async fn insert(db: &Connection, id: RevocationId, revocation: &Revocation) -> Result<(), Error> {
    let (kind, subject) = to_text(&revocation.subject);
    db.execute(
        r"insert into revocations (id, kind, subject, because, not_before, forget_at)
          values ($1, $2, $3, $4, $5, $6)",
        &[&id.uuid(), &kind, &subject, &revocation.because.as_str(), &revocation.not_before, &revocation.forget_at],
    )
    .await
    .map(drop)
}

/// Stores revocations of several grants or several CLI tokens in one statement. All of them have the reason and the
/// times of the first.
pub async fn insert_several(db: &Connection, revocations: &[(RevocationId, Revocation)]) -> Result<(), Error> {
    let Some((_, first)) = revocations.first() else { return Ok(()) };
    let ids: Vec<_> = revocations.iter().map(|(id, _)| id.uuid()).collect();
    let (kinds, subjects): (Vec<_>, Vec<_>) =
        revocations.iter().map(|(_, revocation)| to_text(&revocation.subject)).unzip();
    db.execute(
        r"insert into revocations (id, kind, subject, because, not_before, forget_at)
          select id, kind, subject, $4, $5, $6
            from unnest($1::uuid[], $2::text[], $3::text[]) as made (id, kind, subject)",
        &[&ids, &kinds, &subjects, &first.because.as_str(), &first.not_before, &first.forget_at],
    )
    .await
    .map(drop)
}

/// Returns all revocations that are still relevant.
///
/// A standby does not report which transactions of its snapshot are in progress. There the position is the oldest
/// transaction of the snapshot, and the next read returns later revocations again.
pub async fn list(db: &Connection, now: Timestamp) -> Result<FeedBatch, Error> {
    let rows = db
        .query(
            r"select case when pg_is_in_recovery()
                          then format('%1$s:%1$s:', pg_snapshot_xmin(pg_current_snapshot()))
                          else pg_current_snapshot()::text
                     end as snapshot,
                     clock_timestamp() as database_time, pg_is_in_recovery() as from_standby,
                     case when pg_is_in_recovery() then (select max(beat_at) from node_heartbeats) end
                         as newest_beat_at,
                     system_identifier::text as system,
                     case when pg_is_in_recovery()
                          then (select lpad(to_hex(greatest(c.timeline_id, r.min_recovery_end_timeline)), 8, '0')
                                  from pg_control_checkpoint() c cross join pg_control_recovery() r)
                          else left(pg_walfile_name(pg_current_wal_lsn()), 8)
                     end as timeline,
                     pid::text || '/' || backend_start::text as backend,
                     kind, subject, because, not_before, forget_at
                from pg_control_system() cross join pg_stat_get_activity(pg_backend_pid())
                left join revocations on forget_at > $1",
            &[&now],
        )
        .await?;
    read(&rows)
}

/// Returns the revocations of transactions that `snapshot` does not include.
pub async fn list_since(db: &Connection, snapshot: &str) -> Result<FeedBatch, Error> {
    let rows = db
        .query(
            r"select case when pg_is_in_recovery()
                          then format('%1$s:%1$s:', pg_snapshot_xmin(pg_current_snapshot()))
                          else pg_current_snapshot()::text
                     end as snapshot,
                     clock_timestamp() as database_time, pg_is_in_recovery() as from_standby,
                     case when pg_is_in_recovery() then (select max(beat_at) from node_heartbeats) end
                         as newest_beat_at,
                     system_identifier::text as system,
                     case when pg_is_in_recovery()
                          then (select lpad(to_hex(greatest(c.timeline_id, r.min_recovery_end_timeline)), 8, '0')
                                  from pg_control_checkpoint() c cross join pg_control_recovery() r)
                          else left(pg_walfile_name(pg_current_wal_lsn()), 8)
                     end as timeline,
                     pid::text || '/' || backend_start::text as backend,
                     kind, subject, because, not_before, forget_at
                from pg_control_system() cross join pg_stat_get_activity(pg_backend_pid()) left join revocations
                  on written_by >= pg_snapshot_xmin($1::text::pg_snapshot)
                 and not pg_visible_in_snapshot(written_by, $1::text::pg_snapshot)",
            &[&snapshot],
        )
        .await?;
    read(&rows)
}

/// Deletes a batch of revocations whose credentials have expired.
pub async fn delete_expired(db: &Connection, batch: super::Batch) -> Result<u64, Error> {
    db.execute(
        r"delete from revocations where id in
              (select id from revocations where forget_at <= $1 limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}

/// Notifies the nodes that listen.
pub async fn notify(db: &Connection) -> Result<(), Error> {
    db.execute(r"select pg_notify('service_revocations', '')", &[]).await.map(drop)
}

fn read(rows: &[Row]) -> Result<FeedBatch, Error> {
    let first = rows.first().ok_or_else(|| super::impossible("revocations", "id"))?;
    let server = Identity::parse(first.try_get("system")?, first.try_get("timeline")?);
    let position = FeedPosition {
        server: server.ok_or_else(|| super::impossible("pg_control_system", "timeline"))?,
        backend: first.try_get("backend")?,
        snapshot: first.try_get("snapshot")?,
    };
    let (from_standby, newest_beat_at) = (first.try_get("from_standby")?, first.try_get("newest_beat_at")?);
    let database_time = first.try_get("database_time")?;
    let written = rows.iter().filter(|row| !matches!(row.try_get::<_, Option<&str>>("kind"), Ok(None)));
    let revocations = written.map(revocation).collect::<Result<_, _>>()?;
    Ok(FeedBatch { revocations, position, from_standby, newest_beat_at, database_time })
}

fn revocation(row: &Row) -> Result<Revocation, Error> {
    let kind = row.try_get("kind")?;
    let subject = from_text(kind, row.try_get("subject")?).unwrap_or_else(|| {
        tracing::warn!(kind, "A revocation is of a kind that this version does not know; tokens are looked up");
        Subject::Unknown
    });
    Ok(Revocation {
        subject,
        // An unknown reason, written by a newer version, revokes as well.
        because: Reason::parse(row.try_get("because")?).unwrap_or(Reason::RevokedByAdmin),
        not_before: row.try_get("not_before")?,
        forget_at: row.try_get("forget_at")?,
    })
}

fn to_text(subject: &Subject) -> (&'static str, String) {
    match subject {
        Subject::Grant(id) => ("grant", id.to_string()),
        Subject::CliToken(id) => ("cli_token", id.to_string()),
        Subject::User(id) => ("user", id.to_string()),
        Subject::Membership(user, workspace) => ("membership", format!("{user} {workspace}")),
        Subject::Workspace(id) => ("workspace", id.to_string()),
        Subject::SigningKey(kid) => ("signing_key", kid.clone()),
        Subject::Client(id) => ("client", id.clone()),
        Subject::AllUsers => ("everybody", String::new()),
        // This kind is only ever read.
        Subject::Unknown => ("unknown", String::new()),
    }
}

fn from_text(kind: &str, subject: &str) -> Option<Subject> {
    Some(match kind {
        "grant" => Subject::Grant(subject.parse::<GrantId>().ok()?),
        "cli_token" => Subject::CliToken(subject.parse::<CliTokenId>().ok()?),
        "user" => Subject::User(subject.parse::<UserId>().ok()?),
        "membership" => {
            let (user, workspace) = subject.split_once(' ')?;
            Subject::Membership(user.parse().ok()?, workspace.parse().ok()?)
        }
        "workspace" => Subject::Workspace(subject.parse::<WorkspaceId>().ok()?),
        "signing_key" => Subject::SigningKey(subject.to_owned()),
        "client" => Subject::Client(subject.to_owned()),
        "everybody" => Subject::AllUsers,
        _ => return None,
    })
}
