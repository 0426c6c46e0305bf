//! Tables `revocations` and `revocation_lanes`: credentials that were revoked before they expire. Every node follows them.
//!
//! The statements of a follower are not prepared, so that they also run behind a connection pooler.

use service_api::{
    errors::Reason,
    ids::{CliTokenId, GrantId, Id as _, RevocationId, UserId, WorkspaceId},
};
use service_rules::{
    Timestamp,
    revocation::{
        Revocation, Subject,
        position::{Heads, LANES, LanePage, Place},
    },
};
use tokio_postgres::{Row, types::Type};
use uuid::Uuid;

use crate::database::{Connection, Error, Identity};

/// What a server says about itself.
pub struct FeedServer {
    pub identity: Identity,
    pub is_standby: bool,
    /// The heartbeat of this node that the server has.
    pub own_beat_at: Option<Timestamp>,
    /// The time of the database.
    pub database_time: Timestamp,
}

/// A page of a lane.
pub struct LaneOfRevocations {
    pub lane: usize,
    pub page: LanePage,
    pub revocations: Vec<Revocation>,
}

/// Stores revocations. It must be the last statement before the commit: the transaction holds the lane from here on, so
/// that the numbers of a lane are in the order of commits.
pub async fn insert(db: &Connection, lane: usize, revocations: &[(RevocationId, Revocation)]) -> Result<(), Error> {
    let ids: Vec<_> = revocations.iter().map(|(id, _)| id.uuid()).collect();
    let (kinds, subjects): (Vec<_>, Vec<_>) =
        revocations.iter().map(|(_, revocation)| to_text(&revocation.subject)).unzip();
    let reasons: Vec<_> = revocations.iter().map(|(_, revocation)| revocation.because.as_str()).collect();
    let (not_before, forget_at): (Vec<_>, Vec<_>) =
        revocations.iter().map(|(_, revocation)| (revocation.not_before, revocation.forget_at)).unzip();
    let stored = db
        .execute(
            r"with taken as (
                  update revocation_lanes
                     set last = last + cardinality($2::uuid[]), last_id = ($2::uuid[])[cardinality($2::uuid[])]
                   where lane = $1
                  returning last - cardinality($2::uuid[]) as before
              )
              insert into revocations (lane, number, id, kind, subject, because, not_before, forget_at)
              select $1, taken.before + made.place, made.id, made.kind, made.subject, made.because, made.not_before,
                     made.forget_at
                from taken
                cross join unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[])
                           with ordinality as made (id, kind, subject, because, not_before, forget_at, place)",
            &[&lane_number(lane), &ids, &kinds, &subjects, &reasons, &not_before, &forget_at],
        )
        .await?;
    // Without its lane the revocation would be stored nowhere.
    if stored == u64::try_from(revocations.len()).unwrap_or(u64::MAX) {
        Ok(())
    } else {
        Err(super::impossible("revocation_lanes", "lane"))
    }
}

/// Returns the head of each lane. Nodes run this many times a second, so it does nothing else.
pub async fn poll(db: &Connection) -> Result<Heads, Error> {
    let rows = db.query_unnamed(r"select lane, last, last_id from revocation_lanes", &[]).await?;
    if rows.len() != LANES {
        return Err(super::impossible("revocation_lanes", "lane"));
    }
    let mut heads = [None; LANES];
    for row in &rows {
        let head = heads.get_mut(lane_index(row)?).ok_or_else(|| super::impossible("revocation_lanes", "lane"))?;
        *head = place(row, 1, 2)?;
    }
    Ok(heads)
}

/// Returns what the server says about itself. The heartbeat of this node tells how far a standby has come.
pub async fn identify(db: &Connection, node_id: Uuid) -> Result<FeedServer, Error> {
    let rows = db
        .query_unnamed(
            r"select clock_timestamp() as database_time, pg_is_in_recovery() as is_standby,
                     system_identifier::text as system,
                     case when pg_is_in_recovery()
                          then (select lpad(to_hex(greatest(c.timeline_id, r.min_recovery_end_timeline)), 8, '0')
                                  from pg_control_checkpoint() c cross join pg_control_recovery() r)
                          else left(pg_walfile_name(pg_current_wal_lsn()), 8)
                     end as timeline,
                     (select beat_at from node_heartbeats where node_id = $1) as own_beat_at
                from pg_control_system()",
            &[(&node_id, Type::UUID)],
        )
        .await?;
    let row = rows.first().ok_or_else(|| super::impossible("pg_control_system", "system_identifier"))?;
    let identity = Identity::parse(row.try_get("system")?, row.try_get("timeline")?);
    Ok(FeedServer {
        identity: identity.ok_or_else(|| super::impossible("pg_control_system", "timeline"))?,
        is_standby: row.try_get("is_standby")?,
        own_beat_at: row.try_get("own_beat_at")?,
        database_time: row.try_get("database_time")?,
    })
}

/// Returns a page of each of these lanes, from the given numbers on. `size` limits the revocations of a lane.
///
/// A node that starts reads all revocations, so columns are read by their position: finding ten columns by name for each row
/// takes time.
pub async fn list(db: &Connection, wanted: &[(usize, i64)], size: usize) -> Result<Vec<LaneOfRevocations>, Error> {
    let (lanes, numbers): (Vec<_>, Vec<_>) = wanted.iter().map(|(lane, from)| (lane_number(*lane), *from)).unzip();
    let rows = db
        .query_unnamed(
            r"select l.lane, l.last, l.last_id, r.number, r.id, r.kind, r.subject, r.because, r.not_before, r.forget_at
                from unnest($1::smallint[], $2::bigint[]) as wanted (lane, number)
                join revocation_lanes l on l.lane = wanted.lane
                left join lateral (select * from revocations r where r.lane = wanted.lane and r.number >= wanted.number
                                    order by r.number limit $3) r on true
               order by l.lane, r.number",
            &[
                (&lanes, Type::INT2_ARRAY),
                (&numbers, Type::INT8_ARRAY),
                (&i64::try_from(size).unwrap_or(i64::MAX), Type::INT8),
            ],
        )
        .await?;
    let mut pages: Vec<LaneOfRevocations> = Vec::with_capacity(wanted.len());
    for row in &rows {
        let lane = lane_index(row)?;
        if pages.last().is_none_or(|last| last.lane != lane) {
            let page = LanePage { head: place(row, 1, 2)?, places: Vec::new(), is_full: false };
            pages.push(LaneOfRevocations { lane, page, revocations: Vec::new() });
        }
        let (Some(found), Some(LaneOfRevocations { page, revocations, .. })) = (place(row, 3, 4)?, pages.last_mut())
        else {
            continue;
        };
        page.places.push(found);
        page.is_full = page.places.len() >= size;
        revocations.push(revocation(row)?);
    }
    Ok(pages)
}

/// Deletes a batch of revocations whose credentials have expired.
pub async fn delete_expired(db: &Connection, batch: super::Batch) -> Result<u64, Error> {
    db.execute(
        r"delete from revocations where (lane, number) in
              (select lane, number from revocations where forget_at <= $1 limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}

/// Notifies the nodes that listen.
pub async fn notify(db: &Connection) -> Result<(), Error> {
    db.execute(r"select pg_notify('service_revocations', '')", &[]).await.map(drop)
}

fn lane_number(lane: usize) -> i16 {
    i16::try_from(lane).unwrap_or(i16::MAX)
}

/// Reads the lane, which is the first column.
fn lane_index(row: &Row) -> Result<usize, Error> {
    usize::try_from(row.try_get::<_, i16>(0)?).map_err(|_| super::impossible("revocation_lanes", "lane"))
}

/// Reads a place from two columns; `None`: the lane was never used, or nothing was found.
fn place(row: &Row, number: usize, id: usize) -> Result<Option<Place>, Error> {
    let id: Option<Uuid> = row.try_get(id)?;
    id.map(|id| Ok(Place { number: row.try_get(number)?, id: id.into() })).transpose()
}

/// Reads a row of [`list`].
fn revocation(row: &Row) -> Result<Revocation, Error> {
    let kind = row.try_get(5)?;
    let subject = from_text(kind, row.try_get(6)?).unwrap_or_else(|| {
        tracing::warn!(kind, "A revocation is of a kind that this version does not know; tokens are looked up");
        Subject::Unknown
    });
    Ok(Revocation {
        subject,
        // An unknown reason, written by a newer version, revokes as well.
        because: Reason::parse(row.try_get(7)?).unwrap_or(Reason::RevokedByAdmin),
        not_before: row.try_get(8)?,
        forget_at: row.try_get(9)?,
    })
}

fn to_text(subject: &Subject) -> (&'static str, String) {
    match subject {
        Subject::Grant(id) => ("grant", id.to_string()),
        Subject::CliToken(id) => ("cli_token", id.to_string()),
        Subject::User(id) => ("user", id.to_string()),
        Subject::Membership(user, workspace) => ("membership", format!("{user} {workspace}")),
        Subject::Role(user, workspace) => ("role", format!("{user} {workspace}")),
        Subject::Workspace(id) => ("workspace", id.to_string()),
        Subject::SigningKey(kid) => ("signing_key", kid.clone()),
        Subject::Client(id) => ("client", id.clone()),
        Subject::AllUsers => ("all_users", String::new()),
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
        "role" => {
            let (user, workspace) = subject.split_once(' ')?;
            Subject::Role(user.parse().ok()?, workspace.parse().ok()?)
        }
        "workspace" => Subject::Workspace(subject.parse::<WorkspaceId>().ok()?),
        "signing_key" => Subject::SigningKey(subject.to_owned()),
        "client" => Subject::Client(subject.to_owned()),
        "all_users" => Subject::AllUsers,
        _ => return None,
    })
}
