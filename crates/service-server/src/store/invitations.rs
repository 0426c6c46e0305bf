//! Table `invitations`: email addresses that were invited to a workspace, and their answers.
//!
//! A row is in the shard of its workspace. `received_invitations` points to it from the shard of the address, and
//! `sent_invitations` from the shard of the user who invited. Functions that write here write there too.

use std::collections::BTreeMap;

use service_api::{
    ids::{Id as _, InvitationId, UserId, WorkspaceId},
    workspaces::{Invitation, Role},
};
use service_rules::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::{
    database::{Connection, Error},
    store::{emails::EmailKey, memberships::role_from_text, received_invitations, sent_invitations, users},
};

/// An invitation to be stored.
pub struct NewInvitation<'a> {
    pub id: InvitationId,
    pub workspace_id: WorkspaceId,
    pub email: EmailKey<'a>,
    pub role: Role,
    pub invited_by: UserId,
    /// The session that sends the invitation.
    pub made_by: &'a str,
    pub now: Timestamp,
    pub expires_at: Timestamp,
}

/// Stores an invitation. An invitation of the same address to the same workspace is replaced, unless the same session created
/// it after `since` for the same role, and it was not accepted: then nothing is stored, and that one is returned. Whether it
/// was declined makes no difference, because the workspace must not learn it.
pub async fn replace(db: &Connection, new: &NewInvitation<'_>, since: Timestamp) -> Result<Option<Invitation>, Error> {
    let sql =
        r"select id, invited_by from invitations where workspace_id = $1 and address = $2 and shard = $3 for update";
    let key = (new.workspace_id.uuid(), new.email.address.as_str(), new.workspace_id.shard().number());
    let before = db.query_opt(sql, &[&key.0, &key.1, &key.2]).await?;
    let written = db.execute(
        r"insert into invitations (workspace_id, address, id, role, invited_by, created_at, expires_at, made_by, shard)
          values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
          on conflict (workspace_id, address, shard) do update
             set id = excluded.id, role = excluded.role, invited_by = excluded.invited_by,
                 created_at = excluded.created_at, expires_at = excluded.expires_at, made_by = excluded.made_by,
                 answer = null, answered_at = null
           where invitations.created_at <= $10 or invitations.role <> excluded.role or invitations.answer = 'accepted'
              or invitations.made_by is distinct from excluded.made_by",
        &[
            &new.workspace_id.uuid(),
            &new.email.address.as_str(),
            &new.id.uuid(),
            &new.role.as_str(),
            &new.invited_by.uuid(),
            &new.now,
            &new.expires_at,
            &new.made_by,
            &new.workspace_id.shard().number(),
            &since,
        ],
    )
    .await?;
    if written == 0 {
        let sql = r"select id, address, role, created_at, expires_at from invitations
                     where workspace_id = $1 and address = $2 and shard = $3";
        // The statement above has locked it.
        let found = db.query_opt(sql, &[&key.0, &key.1, &key.2]).await?;
        return found.map(|row| from_row(&row)).transpose();
    }
    if let Some(row) = before {
        let (id, invited_by): (Uuid, Uuid) = (row.try_get("id")?, row.try_get("invited_by")?);
        sent_invitations::delete(db, invited_by.into(), &[id]).await?;
    }
    received_invitations::replace(db, new).await?;
    sent_invitations::insert(db, new).await?;
    Ok(None)
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
               where workspace_id = $1 and shard = $5 and expires_at > $2 and id > $3
                 and answer is distinct from 'accepted'
               order by id limit $4",
            &[&workspace_id.uuid(), &now, &after.unwrap_or_default(), &limit, &workspace_id.shard().number()],
        )
        .await?;
    rows.iter().map(from_row).collect()
}

/// Returns an invitation of a workspace that `list` would return.
pub async fn find(
    db: &Connection,
    workspace_id: WorkspaceId,
    id: InvitationId,
    now: Timestamp,
) -> Result<Option<Invitation>, Error> {
    let row = db
        .query_opt(
            r"select id, address, role, created_at, expires_at from invitations
               where workspace_id = $1 and shard = $4 and id = $2 and expires_at > $3
                 and answer is distinct from 'accepted'",
            &[&workspace_id.uuid(), &id.uuid(), &now, &workspace_id.shard().number()],
        )
        .await?;
    row.map(|row| from_row(&row)).transpose()
}

/// Returns the email addresses of a workspace's invitations, answered or not. Revoked ones are not stored.
pub async fn find_addresses(
    db: &Connection,
    workspace_id: WorkspaceId,
    ids: &[InvitationId],
) -> Result<BTreeMap<InvitationId, String>, Error> {
    let ids: Vec<_> = ids.iter().map(|id| id.uuid()).collect();
    let rows = db
        .query(
            r"select id, address from invitations where workspace_id = $1 and shard = $3 and id = any ($2)",
            &[&workspace_id.uuid(), &ids, &workspace_id.shard().number()],
        )
        .await?;
    rows.iter().map(|row| Ok((row.try_get::<_, Uuid>("id")?.into(), row.try_get("address")?))).collect()
}

/// Revokes an invitation; `false`: there is none that is not accepted.
pub async fn delete(db: &Connection, workspace_id: WorkspaceId, id: InvitationId) -> Result<bool, Error> {
    let rows = db
        .query(
            r"delete from invitations
               where workspace_id = $1 and id = $2 and shard = $3 and answer is distinct from 'accepted'
              returning id, invited_by",
            &[&workspace_id.uuid(), &id.uuid(), &workspace_id.shard().number()],
        )
        .await?;
    forget_sent(db, &rows).await?;
    Ok(!rows.is_empty())
}

/// Revokes several invitations that a user sent, to any workspace, unless they were accepted.
pub async fn delete_several(db: &Connection, invited_by: UserId, ids: &[InvitationId]) -> Result<u64, Error> {
    let sql = r"delete from invitations
                 where id = any ($1) and shard = $2 and invited_by = $3 and answer is distinct from 'accepted'
                returning id, invited_by";
    let mut deleted = 0;
    for (shard, ids) in super::by_shard(ids) {
        let rows = db.query(sql, &[&ids, &shard, &invited_by.uuid()]).await?;
        forget_sent(db, &rows).await?;
        deleted += u64::try_from(rows.len()).unwrap_or(u64::MAX);
    }
    Ok(deleted)
}

/// Deletes the invitations of a workspace that a user sent or received. A user who no longer owns a workspace must not
/// admit members, nor return by an invitation of their own.
pub async fn delete_by_member(db: &Connection, workspace_id: WorkspaceId, member: UserId) -> Result<(), Error> {
    let email = users::find(db, member).await?.map(|user| user.email);
    let rows = db
        .query(
            r"delete from invitations where workspace_id = $1 and shard = $4 and (invited_by = $2 or address = $3)
              returning id, invited_by",
            &[&workspace_id.uuid(), &member.uuid(), &email, &workspace_id.shard().number()],
        )
        .await?;
    forget_sent(db, &rows).await
}

/// Deletes every invitation that a user sent.
pub async fn delete_by_inviter(db: &Connection, inviter: UserId) -> Result<u64, Error> {
    let ids = sent_invitations::list_ids(db, inviter).await?;
    delete_several(db, inviter, &ids).await
}

/// Deletes every invitation of a workspace.
pub async fn delete_by_workspace(db: &Connection, workspace_id: WorkspaceId) -> Result<(), Error> {
    let rows = db
        .query(
            r"delete from invitations where workspace_id = $1 and shard = $2 returning id, invited_by",
            &[&workspace_id.uuid(), &workspace_id.shard().number()],
        )
        .await?;
    forget_sent(db, &rows).await
}

/// Deletes what the inviters have of invitations that no longer exist. What the addressees have of them points to nothing
/// from now on, and is deleted when it expires.
async fn forget_sent(db: &Connection, deleted: &[Row]) -> Result<(), Error> {
    let mut by_inviter = BTreeMap::<Uuid, Vec<Uuid>>::new();
    for row in deleted {
        by_inviter.entry(row.try_get("invited_by")?).or_default().push(row.try_get("id")?);
    }
    for (inviter, ids) in by_inviter {
        sent_invitations::delete(db, inviter.into(), &ids).await?;
    }
    Ok(())
}

/// Deletes a batch of expired invitations.
pub async fn delete_expired(db: &Connection, batch: super::Batch) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from invitations where (workspace_id, address) in
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
