//! Table `installation`: the database server that this installation uses, and whether it looks restored from a backup.

use service_rules::{
    Timestamp,
    restore::{Recorded, Suspicion},
};
use uuid::Uuid;

use crate::database::{Connection, Error, Identity};

/// The only row of the table, together with the server that answers now.
pub struct Installation {
    pub recorded: Recorded,
    pub fenced: Option<Suspicion>,
    pub server: Identity,
    /// This node's own heartbeat as the database has it.
    pub own_beat_at: Option<Timestamp>,
}

/// Returns the row; `None`: no node has started on this database yet.
pub async fn find(db: &Connection, node_id: Uuid) -> Result<Option<Installation>, Error> {
    let row = db
        .query_opt(
            r"select i.system_identifier, i.timeline, i.restores, i.fenced_because, s.system_identifier::text as system,
                     left(pg_walfile_name(pg_current_wal_lsn()), 8) as current_timeline,
                     (select beat_at from node_heartbeats where node_id = $1) as own_beat_at
                from installation i cross join pg_control_system() s",
            &[&node_id],
        )
        .await?;
    let Some(row) = row else { return Ok(None) };
    let reason: Option<&str> = row.try_get("fenced_because")?;
    let server = Identity::parse(row.try_get("system")?, row.try_get("current_timeline")?);
    Ok(Some(Installation {
        recorded: Recorded {
            system: row.try_get("system_identifier")?,
            timeline: row.try_get("timeline")?,
            restores: row.try_get("restores")?,
        },
        // An unknown reason, written by a newer version, fences as well.
        fenced: reason.map(|text| Suspicion::parse(text).unwrap_or(Suspicion::AnchorAhead)),
        server: server.ok_or_else(|| super::impossible("pg_control_system", "timeline"))?,
        own_beat_at: row.try_get("own_beat_at")?,
    }))
}

/// Records the server that answers, unless there is a row.
pub async fn insert(db: &Connection) -> Result<(), Error> {
    db.execute(
        r"insert into installation (system_identifier, timeline)
          select system_identifier::text,
                 ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint from pg_control_system()
          on conflict do nothing",
        &[],
    )
    .await
    .map(drop)
}

/// Locks the row: other nodes that compare wait until this transaction ends.
pub async fn lock(db: &Connection) -> Result<(), Error> {
    db.query(r"select from installation for update", &[]).await.map(drop)
}

/// Returns the newest heartbeat of any node.
pub async fn find_newest_beat(db: &Connection) -> Result<Option<Timestamp>, Error> {
    let row = db.query_opt(r"select max(beat_at) as newest from node_heartbeats", &[]).await?;
    row.map_or(Ok(None), |row| Ok(row.try_get("newest")?))
}

/// Records another server after a failover.
pub async fn update_server(db: &Connection, server: &Identity) -> Result<(), Error> {
    db.execute(
        r"update installation set system_identifier = $1, timeline = $2",
        &[&server.system, &i64::from(server.timeline)],
    )
    .await
    .map(drop)
}

/// Closes the fence; `false`: it was closed before.
pub async fn mark_fenced(db: &Connection, suspicion: Suspicion, now: Timestamp) -> Result<bool, Error> {
    let sql = r"update installation set fenced_at = $1, fenced_because = $2 where fenced_at is null";
    Ok(db.execute(sql, &[&now, &suspicion.as_str()]).await? == 1)
}

/// Opens the fence and records the server that answers; `false`: the fence was open.
pub async fn mark_finished(db: &Connection, server: &Identity) -> Result<bool, Error> {
    let changed = db
        .execute(
            r"update installation set system_identifier = $1, timeline = $2, restores = restores + 1,
                                      fenced_at = null, fenced_because = null
               where fenced_at is not null",
            &[&server.system, &i64::from(server.timeline)],
        )
        .await?;
    Ok(changed == 1)
}
