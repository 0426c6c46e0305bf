//! Table `invitations` as the invited user sees it, by the verified email addresses of the account.

use service_api::{
    ids::{Id as _, InvitationId, UserId, WorkspaceId},
    workspaces::{ReceivedInvitation, Role},
};
use service_rules::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::database::{Connection, Error};
use crate::store::memberships::role_from_text;

/// Returns up to `limit` pending invitations of a user after `after`. An invitation counts only while its workspace
/// exists and its sender is an enabled owner of it.
pub async fn list(
    db: &Connection,
    user_id: UserId,
    now: Timestamp,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<ReceivedInvitation>, Error> {
    let rows = db
        .query(
            r"select i.id, i.workspace_id, w.name, i.address, i.role, u.email as invited_by, i.created_at, i.expires_at
                from emails e
                join invitations i on i.address = e.address
                join workspaces w on w.id = i.workspace_id and w.deleted_at is null
                join memberships m on m.user_id = i.invited_by and m.workspace_id = i.workspace_id
                                  and m.role = 'owner' and m.ended_at is null
                join users u on u.id = i.invited_by and u.disabled_at is null
               where e.user_id = $1 and i.expires_at > $2 and i.id > $3 and i.answer is null
                 and not exists (select from blocked_workspaces b
                                  where b.user_id = $1 and b.workspace_id = i.workspace_id)
                 and not exists (select from memberships own where own.user_id = $1
                                    and own.workspace_id = i.workspace_id and own.ended_at is null)
               order by i.id limit $4",
            &[&user_id.uuid(), &now, &after.unwrap_or_default(), &limit],
        )
        .await?;
    rows.iter().map(from_row).collect()
}

fn from_row(row: &Row) -> Result<ReceivedInvitation, Error> {
    Ok(ReceivedInvitation {
        id: row.try_get::<_, Uuid>("id")?.into(),
        workspace_id: row.try_get::<_, Uuid>("workspace_id")?.into(),
        workspace_name: row.try_get("name")?,
        email: row.try_get("address")?,
        role: role_from_text(row.try_get("role")?)?,
        invited_by: row.try_get("invited_by")?,
        created_at: row.try_get("created_at")?,
        expires_at: row.try_get("expires_at")?,
    })
}

/// An invitation to one of the user's addresses.
pub struct FoundInvitation {
    pub workspace_id: WorkspaceId,
    pub workspace_name: String,
    pub accepted: bool,
}

/// Returns an unexpired invitation to one of the user's addresses, answered or not.
pub async fn find(
    db: &Connection,
    user_id: UserId,
    id: InvitationId,
    now: Timestamp,
) -> Result<Option<FoundInvitation>, Error> {
    let row = db
        .query_opt(
            r"select i.workspace_id, w.name, i.answer is not distinct from 'accepted' as accepted
                from invitations i
                join emails e on e.address = i.address and e.user_id = $1
                join workspaces w on w.id = i.workspace_id and w.deleted_at is null
               where i.id = $2 and i.expires_at > $3",
            &[&user_id.uuid(), &id.uuid(), &now],
        )
        .await?;
    row.map(|row| {
        Ok(FoundInvitation {
            workspace_id: row.try_get::<_, Uuid>("workspace_id")?.into(),
            workspace_name: row.try_get("name")?,
            accepted: row.try_get("accepted")?,
        })
    })
    .transpose()
}

/// Accepts an invitation if it is still valid; returns the role. The caller holds the lock of the workspace, so that
/// the sender cannot lose ownership meanwhile.
pub async fn mark_accepted(
    db: &Connection,
    user_id: UserId,
    id: InvitationId,
    now: Timestamp,
) -> Result<Option<Role>, Error> {
    let row = db
        .query_opt(
            r"update invitations i set answer = 'accepted', answered_at = $3
                from emails e, memberships m, users u
               where i.id = $2 and i.expires_at > $3 and i.answer is null
                 and e.address = i.address and e.user_id = $1
                 and m.user_id = i.invited_by and m.workspace_id = i.workspace_id
                 and m.role = 'owner' and m.ended_at is null
                 and u.id = i.invited_by and u.disabled_at is null
                 and not exists (select from blocked_workspaces b
                                  where b.user_id = $1 and b.workspace_id = i.workspace_id)
              returning i.role",
            &[&user_id.uuid(), &id.uuid(), &now],
        )
        .await?;
    row.map(|row| role_from_text(row.try_get("role")?)).transpose()
}

/// Declines an invitation. `Some(false)`: it was declined before; `None`: there is none that can be declined. The row
/// of a declined invitation is written unchanged, so that the commit confirms the earlier answer.
pub async fn mark_declined(
    db: &Connection,
    user_id: UserId,
    id: InvitationId,
    now: Timestamp,
) -> Result<Option<bool>, Error> {
    let row = db
        .query_opt(
            r"update invitations i set answer = 'declined', answered_at = coalesce(i.answered_at, $3)
                from emails e
               where i.id = $2 and i.expires_at > $3 and i.answer is distinct from 'accepted'
                 and e.address = i.address and e.user_id = $1
              returning i.answered_at = $3 as first",
            &[&user_id.uuid(), &id.uuid(), &now],
        )
        .await?;
    row.map(|row| Ok(row.try_get("first")?)).transpose()
}
