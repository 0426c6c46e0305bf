//! Table `received_invitations`: which invitations an email address received, in the shard of the address. The invitation
//! itself is in the shard of its workspace; see `invitations.rs`.

use std::collections::HashMap;

use futures_util::future::try_join_all;
use service_api::{
    ids::{Id as _, InvitationId, UserId, WorkspaceId},
    workspaces::{ReceivedInvitation, Role},
};
use service_rules::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::{
    database::{Connection, Error},
    store::{
        blocked_workspaces, emails::EmailKey, invitations::NewInvitation, memberships, memberships::role_from_text,
        sent_invitations, users,
    },
};

/// The user who was invited, and the user's email address.
#[derive(Clone, Copy, Debug)]
pub struct InvitedUser<'a> {
    pub user_id: UserId,
    pub email: EmailKey<'a>,
}

/// Stores that an address received an invitation. It replaces an earlier one to the same workspace.
pub(super) async fn replace(db: &Connection, new: &NewInvitation<'_>) -> Result<(), Error> {
    db.execute(
        r"insert into received_invitations (address, workspace_id, shard, id, expires_at) values ($1, $2, $3, $4, $5)
          on conflict (address, workspace_id, shard) do update set id = excluded.id, expires_at = excluded.expires_at",
        &[
            &new.email.address.as_str(),
            &new.workspace_id.uuid(),
            &new.email.shard.number(),
            &new.id.uuid(),
            &new.expires_at,
        ],
    )
    .await
    .map(drop)
}

/// Returns up to `limit` pending invitations of a user after `after`. An invitation counts only while its workspace
/// exists and its sender is an enabled owner of it.
pub async fn list(
    db: &Connection,
    invited: InvitedUser<'_>,
    now: Timestamp,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<ReceivedInvitation>, Error> {
    let (mut pending, mut after) = (Vec::new(), after.unwrap_or_default());
    let wanted = usize::try_from(limit).unwrap_or_default();
    loop {
        let ids = list_ids(db, invited.email, now, after, limit).await?;
        let is_last = ids.len() < wanted;
        let Some(last) = ids.last() else { return Ok(pending) };
        after = last.uuid();
        pending.extend(read_pending(db, invited, &ids, now).await?);
        if is_last || pending.len() >= wanted {
            pending.truncate(wanted);
            return Ok(pending);
        }
    }
}

async fn list_ids(
    db: &Connection,
    email: EmailKey<'_>,
    now: Timestamp,
    after: Uuid,
    limit: i64,
) -> Result<Vec<InvitationId>, Error> {
    let sql = r"select id from received_invitations
                 where address = $1 and shard = $2 and expires_at > $3 and id > $4 order by id limit $5";
    let rows = db.query(sql, &[&email.address.as_str(), &email.shard.number(), &now, &after, &limit]).await?;
    rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("id")?.into())).collect()
}

/// Reads those of these invitations that can be accepted, in the order of their ids.
async fn read_pending(
    db: &Connection,
    invited: InvitedUser<'_>,
    ids: &[InvitationId],
    now: Timestamp,
) -> Result<Vec<ReceivedInvitation>, Error> {
    let sql = r"select i.id, i.workspace_id, w.name, i.address, i.role, i.invited_by, i.created_at, i.expires_at
                  from invitations i
                  join workspaces w on w.id = i.workspace_id and w.shard = i.shard and w.deleted_at is null
                  join members m on m.workspace_id = i.workspace_id and m.user_id = i.invited_by and m.shard = i.shard
                                and m.role = 'owner' and m.ended_at is null
                 where i.id = any ($1) and i.shard = $2 and i.address = $3 and i.expires_at > $4 and i.answer is null";
    let address = invited.email.address.as_str();
    let read = super::by_shard(ids).into_iter();
    let read = read.map(async |(shard, ids)| db.query(sql, &[&ids, &shard, &address, &now]).await);
    let rows: Vec<_> = try_join_all(read).await?.into_iter().flatten().collect();
    let mut found = rows.iter().map(from_row).collect::<Result<Vec<_>, Error>>()?;
    let senders: Vec<_> = found.iter().map(|(sender, _)| *sender).collect();
    let senders: HashMap<_, _> = users::find_several(db, &senders).await?;
    let workspaces: Vec<_> = found.iter().map(|(_, invitation)| invitation.workspace_id).collect();
    let known = memberships::find_several(db, invited.user_id, &workspaces).await?;
    let blocked = blocked_workspaces::find_several(db, invited.user_id, &workspaces).await?;
    found.retain_mut(|(sender, invitation)| {
        let Some(sender) = senders.get(sender).filter(|sender| !sender.disabled) else { return false };
        invitation.invited_by.clone_from(&sender.email);
        !known.contains(&invitation.workspace_id) && !blocked.contains(&invitation.workspace_id)
    });
    let mut pending: Vec<_> = found.into_iter().map(|(_, invitation)| invitation).collect();
    pending.sort_by_key(|invitation| invitation.id);
    Ok(pending)
}

/// Reads an invitation and its sender. The sender's address is added later.
fn from_row(row: &Row) -> Result<(UserId, ReceivedInvitation), Error> {
    let invitation = ReceivedInvitation {
        id: row.try_get::<_, Uuid>("id")?.into(),
        workspace_id: row.try_get::<_, Uuid>("workspace_id")?.into(),
        workspace_name: row.try_get("name")?,
        email: row.try_get("address")?,
        role: role_from_text(row.try_get("role")?)?,
        invited_by: String::new(),
        created_at: row.try_get("created_at")?,
        expires_at: row.try_get("expires_at")?,
    };
    Ok((row.try_get::<_, Uuid>("invited_by")?.into(), invitation))
}

/// An invitation to a user's address.
pub struct FoundInvitation {
    pub workspace_id: WorkspaceId,
    pub workspace_name: String,
    pub accepted: bool,
}

/// Returns an unexpired invitation to a user's address, answered or not.
pub async fn find(
    db: &Connection,
    email: EmailKey<'_>,
    id: InvitationId,
    now: Timestamp,
) -> Result<Option<FoundInvitation>, Error> {
    let row = db
        .query_opt(
            r"select i.workspace_id, w.name, i.answer is not distinct from 'accepted' as accepted
                from invitations i
                join workspaces w on w.id = i.workspace_id and w.shard = i.shard and w.deleted_at is null
               where i.id = $1 and i.shard = $2 and i.address = $3 and i.expires_at > $4",
            &[&id.uuid(), &id.shard().number(), &email.address.as_str(), &now],
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

/// Accepts an invitation if it is still valid; returns the role. `None`: it is not, and the caller rolls back. The caller
/// holds the locks of the user and of the workspace, so that the user cannot block it and the sender cannot lose
/// ownership meanwhile.
pub async fn mark_accepted(
    db: &Connection,
    invited: InvitedUser<'_>,
    id: InvitationId,
    now: Timestamp,
) -> Result<Option<Role>, Error> {
    let row = db
        .query_opt(
            r"update invitations i set answer = 'accepted', answered_at = $3
                from members m
               where i.id = $1 and i.shard = $2 and i.address = $4 and i.expires_at > $3 and i.answer is null
                 and m.workspace_id = i.workspace_id and m.user_id = i.invited_by and m.shard = i.shard
                 and m.role = 'owner' and m.ended_at is null
              returning i.role, i.workspace_id, i.invited_by",
            &[&id.uuid(), &id.shard().number(), &now, &invited.email.address.as_str()],
        )
        .await?;
    let Some(row) = row else { return Ok(None) };
    let sender: UserId = row.try_get::<_, Uuid>("invited_by")?.into();
    let workspace_id: WorkspaceId = row.try_get::<_, Uuid>("workspace_id")?.into();
    // What is in other shards is read while the invitation is locked. Disabling its sender deletes it, and waits.
    let is_valid = users::find(db, sender).await?.is_some_and(|sender| !sender.disabled)
        && blocked_workspaces::find_several(db, invited.user_id, &[workspace_id]).await?.is_empty();
    if !is_valid {
        return Ok(None);
    }
    sent_invitations::delete(db, sender, &[id.uuid()]).await?;
    Ok(Some(role_from_text(row.try_get("role")?)?))
}

/// Declines an invitation. `Some(false)`: it was declined before; `None`: there is none that can be declined. The row
/// of a declined invitation is written unchanged, so that the commit confirms the earlier answer.
pub async fn mark_declined(
    db: &Connection,
    email: EmailKey<'_>,
    id: InvitationId,
    now: Timestamp,
) -> Result<Option<bool>, Error> {
    let row = db
        .query_opt(
            r"update invitations set answer = 'declined', answered_at = coalesce(answered_at, $3)
               where id = $1 and shard = $2 and address = $4 and expires_at > $3 and answer is distinct from 'accepted'
              returning answered_at = $3 as first",
            &[&id.uuid(), &id.shard().number(), &now, &email.address.as_str()],
        )
        .await?;
    row.map(|row| Ok(row.try_get("first")?)).transpose()
}

/// Deletes a batch of expired rows.
pub async fn delete_expired(db: &Connection, batch: super::Batch) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from received_invitations where (address, workspace_id) in
              (select address, workspace_id from received_invitations
                where expires_at <= $1 limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}
