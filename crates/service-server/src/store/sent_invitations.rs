//! Table `sent_invitations`: the invitations that a user sent and that were not accepted, in the shard of the user. See
//! `invitations.rs`.

use service_api::ids::{Id as _, InvitationId, UserId};
use service_rules::Timestamp;
use uuid::Uuid;

use crate::{
    database::{Connection, Error},
    store::invitations::NewInvitation,
};

/// Stores an invitation.
pub(super) async fn insert(db: &Connection, new: &NewInvitation<'_>) -> Result<(), Error> {
    db.execute(
        r"insert into sent_invitations (user_id, id, shard, workspace_id, address, made_by, created_at, expires_at)
          values ($1, $2, $3, $4, $5, $6, $7, $8)",
        &[
            &new.invited_by.uuid(),
            &new.id.uuid(),
            &new.invited_by.shard().number(),
            &new.workspace_id.uuid(),
            &new.email.address.as_str(),
            &new.made_by,
            &new.now,
            &new.expires_at,
        ],
    )
    .await
    .map(drop)
}

/// Counts the pending invitations that a user sent, over all workspaces.
pub async fn count(db: &Connection, user_id: UserId, now: Timestamp) -> Result<i64, Error> {
    let sql = r"select count(*) as waiting from sent_invitations where user_id = $1 and shard = $3 and expires_at > $2";
    let row = db.query_opt(sql, &[&user_id.uuid(), &now, &user_id.shard().number()]).await?;
    row.map_or(Ok(0), |row| Ok(row.try_get("waiting")?))
}

/// Returns the ids of the invitations that a user sent.
pub async fn list_ids(db: &Connection, user_id: UserId) -> Result<Vec<InvitationId>, Error> {
    let sql = r"select id from sent_invitations where user_id = $1 and shard = $2";
    let rows = db.query(sql, &[&user_id.uuid(), &user_id.shard().number()]).await?;
    rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("id")?.into())).collect()
}

/// Deletes invitations that were accepted, revoked or replaced.
pub(super) async fn delete(db: &Connection, user_id: UserId, ids: &[Uuid]) -> Result<(), Error> {
    let sql = r"delete from sent_invitations where user_id = $1 and shard = $3 and id = any ($2)";
    db.execute(sql, &[&user_id.uuid(), &ids, &user_id.shard().number()]).await.map(drop)
}

/// Deletes a batch of expired invitations.
pub async fn delete_expired(db: &Connection, batch: super::Batch) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from sent_invitations where (user_id, id) in
              (select user_id, id from sent_invitations where expires_at <= $1 limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}
