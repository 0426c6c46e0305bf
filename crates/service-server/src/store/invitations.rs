//! Table `invitations`: who was asked into a workspace and has not come yet.

use service_api::{
    ids::{Id as _, InvitationId, UserId, WorkspaceId},
    workspaces::{Invitation, Role},
};
use service_rules::{Timestamp, email::Address};
use tokio_postgres::Row;
use uuid::Uuid;

use super::memberships::{role_from_text, role_to_text};
use crate::database::{Connection, Error};

pub struct New<'a> {
    pub id: InvitationId,
    pub workspace_id: WorkspaceId,
    pub address: &'a Address,
    pub role: Role,
    pub invited_by: UserId,
    pub now: Timestamp,
    pub expires_at: Timestamp,
}

/// Invites an address; an earlier invitation that still waits gives way.
pub async fn replace(db: &Connection, new: &New<'_>) -> Result<(), Error> {
    db.execute(
        r"insert into invitations (workspace_id, address, id, role, invited_by, created_at, expires_at)
          values ($1, $2, $3, $4, $5, $6, $7)
          on conflict (workspace_id, address) do update
             set id = excluded.id, role = excluded.role, invited_by = excluded.invited_by,
                 created_at = excluded.created_at, expires_at = excluded.expires_at",
        &[
            &new.workspace_id.uuid(),
            &new.address.as_str(),
            &new.id.uuid(),
            &role_to_text(new.role),
            &new.invited_by.uuid(),
            &new.now,
            &new.expires_at,
        ],
    )
    .await
    .map(drop)
}

/// Up to `limit` of those that wait, behind `after`.
pub async fn list(
    db: &Connection,
    workspace_id: WorkspaceId,
    now: Timestamp,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Invitation>, Error> {
    let rows = db
        .query(
            r"select id, address, role, created_at, expires_at from invitations
               where workspace_id = $1 and expires_at > $2 and id > $3 order by id limit $4",
            &[&workspace_id.uuid(), &now, &after.unwrap_or_default(), &limit],
        )
        .await?;
    rows.iter().map(from_row).collect()
}

pub async fn delete(db: &Connection, workspace_id: WorkspaceId, id: InvitationId) -> Result<bool, Error> {
    let sql = r"delete from invitations where workspace_id = $1 and id = $2";
    Ok(db.execute(sql, &[&workspace_id.uuid(), &id.uuid()]).await? == 1)
}

/// Up to so many invitations that wait for an address, whose workspace is there and whose sender still owns it; the
/// workspaces stay as they are until this transaction ends.
pub async fn take(
    db: &Connection,
    address: &Address,
    now: Timestamp,
    most: i64,
) -> Result<Vec<(WorkspaceId, Role)>, Error> {
    let rows = db
        .query(
            r"select i.workspace_id, i.role from invitations i
                join workspaces w on w.id = i.workspace_id and w.deleted_at is null
                join memberships m on m.user_id = i.invited_by and m.workspace_id = i.workspace_id
                                  and m.role = 'owner' and m.ended_at is null
               where i.address = $1 and i.expires_at > $2
               order by i.workspace_id limit $3 for share of w, m",
            &[&address.as_str(), &now, &most],
        )
        .await?;
    let read = |row: &Row| {
        let id: Uuid = row.try_get("workspace_id")?;
        Ok((id.into(), role_from_text(row.try_get("role")?)?))
    };
    rows.iter().map(read).collect()
}

/// Forgets invitations of a workspace that somebody sent, or that are for their address: whoever no longer owns it has let
/// nobody in, least of all themselves.
pub async fn delete_by_member(db: &Connection, workspace_id: WorkspaceId, member: UserId) -> Result<u64, Error> {
    db.execute(
        r"delete from invitations
           where workspace_id = $1 and (invited_by = $2 or address = (select email from users where id = $2))",
        &[&workspace_id.uuid(), &member.uuid()],
    )
    .await
}

pub async fn delete_by_workspace(db: &Connection, workspace_id: WorkspaceId) -> Result<u64, Error> {
    db.execute(r"delete from invitations where workspace_id = $1", &[&workspace_id.uuid()]).await
}

pub async fn delete_by_address(db: &Connection, address: &Address, workspaces: &[WorkspaceId]) -> Result<u64, Error> {
    let ids: Vec<_> = workspaces.iter().map(|id| id.uuid()).collect();
    let sql = r"delete from invitations where address = $1 and workspace_id = any ($2)";
    db.execute(sql, &[&address.as_str(), &ids]).await
}

pub async fn delete_expired(db: &Connection, batch: super::Batch) -> Result<u64, Error> {
    db.execute(
        r"delete from invitations where (workspace_id, address) in
              (select workspace_id, address from invitations where expires_at <= $1 limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}

fn from_row(row: &Row) -> Result<Invitation, Error> {
    Ok(Invitation {
        id: row.try_get::<_, Uuid>("id")?.into(),
        email: row.try_get("address")?,
        role: role_from_text(row.try_get("role")?)?,
        created_at: row.try_get("created_at")?,
        expires_at: row.try_get("expires_at")?,
    })
}
