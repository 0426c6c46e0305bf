//! Table `revocations`: what ended before its time, for every node to follow.

use service_api::{
    errors::Reason,
    ids::{CliTokenId, GrantId, Id as _, RevocationId, UserId, WorkspaceId},
};
use service_rules::{
    Timestamp,
    revocation::{Ending, Subject},
};
use tokio_postgres::Row;

use crate::database::{Connection, Error};

/// How far a follower has read: over which connection to which database, and which transactions had ended in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The database and its timeline: another after a failover or a restore.
    pub server: String,
    /// The process of the database that answered. It does not outlive a crash, after which numbers of transactions may
    /// be given out again.
    pub backend: String,
    pub snapshot: String,
}

/// What a read found, and where the next one begins.
pub struct News {
    pub endings: Vec<Ending>,
    pub position: Position,
    /// What time the database says it is.
    pub database_time: Timestamp,
}

pub async fn insert(db: &Connection, id: RevocationId, ending: &Ending) -> Result<(), Error> {
    let (kind, subject) = to_text(&ending.subject);
    db.execute(
        r"insert into revocations (id, kind, subject, because, not_before, forget_at)
          values ($1, $2, $3, $4, $5, $6)",
        &[&id.uuid(), &kind, &subject, &ending.because.as_str(), &ending.not_before, &ending.forget_at],
    )
    .await
    .map(drop)
}

/// The same for several grants at once.
pub async fn insert_grants(db: &Connection, grants: &[(RevocationId, Ending)]) -> Result<(), Error> {
    let Some((_, first)) = grants.first() else { return Ok(()) };
    let ids: Vec<_> = grants.iter().map(|(id, _)| id.uuid()).collect();
    let subjects: Vec<_> = grants.iter().map(|(_, ending)| to_text(&ending.subject).1).collect();
    db.execute(
        r"insert into revocations (id, kind, subject, because, not_before, forget_at)
          select id, 'grant', subject, $3, $4, $5 from unnest($1::uuid[], $2::text[]) as made (id, subject)",
        &[&ids, &subjects, &first.because.as_str(), &first.not_before, &first.forget_at],
    )
    .await
    .map(drop)
}

/// Everything that still matters.
pub async fn list(db: &Connection, now: Timestamp) -> Result<News, Error> {
    let rows = db
        .query(
            r"select pg_current_snapshot()::text as snapshot, clock_timestamp() as database_time,
                     system_identifier::text || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) as server,
                     pid::text || '/' || backend_start::text as backend,
                     kind, subject, because, not_before, forget_at
                from pg_control_system() cross join pg_stat_get_activity(pg_backend_pid())
                left join revocations on forget_at > $1",
            &[&now],
        )
        .await?;
    read(&rows)
}

/// What was committed since the transactions of `snapshot` were looked at, whatever its place in the table.
pub async fn list_since(db: &Connection, snapshot: &str) -> Result<News, Error> {
    let rows = db
        .query(
            r"select pg_current_snapshot()::text as snapshot, clock_timestamp() as database_time,
                     system_identifier::text || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) as server,
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

pub async fn delete_expired(db: &Connection, batch: super::Batch) -> Result<u64, Error> {
    db.execute(
        r"delete from revocations where id in
              (select id from revocations where forget_at <= $1 limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}

/// Tells whoever listens that there is something to read.
pub async fn notify(db: &Connection) -> Result<(), Error> {
    db.execute(r"select pg_notify('service_revocations', '')", &[]).await.map(drop)
}

fn read(rows: &[Row]) -> Result<News, Error> {
    let first = rows.first().ok_or_else(|| super::impossible("revocations", "id"))?;
    let position = Position {
        server: first.try_get("server")?,
        backend: first.try_get("backend")?,
        snapshot: first.try_get("snapshot")?,
    };
    let database_time = first.try_get("database_time")?;
    let written = rows.iter().filter(|row| !matches!(row.try_get::<_, Option<&str>>("kind"), Ok(None)));
    let endings = written.map(ending).collect::<Result<_, _>>()?;
    Ok(News { endings, position, database_time })
}

fn ending(row: &Row) -> Result<Ending, Error> {
    let subject = from_text(row.try_get("kind")?, row.try_get("subject")?);
    Ok(Ending {
        subject: subject.ok_or_else(|| super::impossible("revocations", "subject"))?,
        // A reason that only a newer version knows ends the credential all the same.
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
        Subject::Everybody => ("everybody", String::new()),
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
        "everybody" => Subject::Everybody,
        _ => return None,
    })
}
