//! Table `invitations`: email addresses that were invited to a workspace, and their answers.

use service_api::{
    ids::{Id as _, InvitationId, UserId, WorkspaceId},
    workspaces::{Invitation, Role},
};
use service_rules::{Timestamp, email::Address};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::database::{Connection, Error};
use crate::store::memberships::{role_from_text, role_to_text};

/// An invitation to be stored.
pub struct NewInvitation<'a> {
    pub id: InvitationId,
    pub workspace_id: WorkspaceId,
    pub address: &'a Address,
    pub role: Role,
    pub invited_by: UserId,
    /// The session that sends the invitation.
    pub made_by: &'a str,
    pub now: Timestamp,
    pub expires_at: Timestamp,
}

/// Stores an invitation. A pending invitation of the same address to the same workspace is replaced.
pub async fn replace(db: &Connection, new: &NewInvitation<'_>) -> Result<(), Error> {
    db.execute(
        r"insert into invitations (workspace_id, address, id, role, invited_by, created_at, expires_at, made_by)
          values ($1, $2, $3, $4, $5, $6, $7, $8)
          on conflict (workspace_id, address) do update
             set id = excluded.id, role = excluded.role, invited_by = excluded.invited_by,
                 created_at = excluded.created_at, expires_at = excluded.expires_at, made_by = excluded.made_by,
                 answer = null, answered_at = null",
        &[
            &new.workspace_id.uuid(),
            &new.address.as_str(),
            &new.id.uuid(),
            &role_to_text(new.role),
            &new.invited_by.uuid(),
            &new.now,
            &new.expires_at,
            &new.made_by,
        ],
    )
    .await
    .map(drop)
}

/// Returns up to `limit` invitations of a workspace that were not accepted, after `after`. Declined ones are included:
/// the workspace does not learn that an invitation was declined.
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
               where workspace_id = $1 and expires_at > $2 and id > $3 and answer is distinct from 'accepted'
               order by id limit $4",
            &[&workspace_id.uuid(), &now, &after.unwrap_or_default(), &limit],
        )
        .await?;
    rows.iter().map(from_row).collect()
}

/// Revokes an invitation; `false`: there is none that is not accepted.
pub async fn delete(db: &Connection, workspace_id: WorkspaceId, id: InvitationId) -> Result<bool, Error> {
    let sql = r"delete from invitations where workspace_id = $1 and id = $2 and answer is distinct from 'accepted'";
    Ok(db.execute(sql, &[&workspace_id.uuid(), &id.uuid()]).await? == 1)
}

/// Revokes several invitations that a user sent, to any workspace, unless they were accepted.
pub async fn delete_several(db: &Connection, invited_by: UserId, ids: &[Uuid]) -> Result<u64, Error> {
    let sql = r"delete from invitations where invited_by = $1 and id = any ($2) and answer is distinct from 'accepted'";
    db.execute(sql, &[&invited_by.uuid(), &ids]).await
}

/// Deletes the invitations of a workspace that a user sent or received. A user who no longer owns a workspace must not
/// admit members, nor return by an invitation of their own.
pub async fn delete_by_member(db: &Connection, workspace_id: WorkspaceId, member: UserId) -> Result<u64, Error> {
    db.execute(
        r"delete from invitations
           where workspace_id = $1 and (invited_by = $2 or address in (select address from emails where user_id = $2))",
        &[&workspace_id.uuid(), &member.uuid()],
    )
    .await
}

/// Counts the pending invitations that a user sent, over all workspaces.
pub async fn count_waiting(db: &Connection, inviter: UserId, now: Timestamp) -> Result<i64, Error> {
    let sql = r"select count(*) as waiting from invitations
                 where invited_by = $1 and expires_at > $2 and answer is distinct from 'accepted'";
    let row = db.query_opt(sql, &[&inviter.uuid(), &now]).await?;
    row.map_or(Ok(0), |row| Ok(row.try_get("waiting")?))
}

/// Deletes every invitation that a user sent.
pub async fn delete_by_inviter(db: &Connection, inviter: UserId) -> Result<u64, Error> {
    db.execute(r"delete from invitations where invited_by = $1", &[&inviter.uuid()]).await
}

/// Deletes every invitation of a workspace.
pub async fn delete_by_workspace(db: &Connection, workspace_id: WorkspaceId) -> Result<u64, Error> {
    db.execute(r"delete from invitations where workspace_id = $1", &[&workspace_id.uuid()]).await
}

/// Deletes a batch of expired invitations.
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
