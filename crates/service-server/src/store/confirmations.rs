//! Table `confirmations`: deletions that MCP clients ask for, and the answers of their users.

use service_api::{
    contents::Kind,
    ids::{ConfirmationId, Id as _, UserId, WorkspaceId},
};
use service_rules::Timestamp;
use uuid::Uuid;

use crate::{
    database::{Connection, Error},
    store::Batch,
};

/// A deletion that waits for its user, or that the user has answered.
#[derive(Clone, Debug)]
pub struct Confirmation {
    pub id: ConfirmationId,
    pub user_id: UserId,
    pub client_id: String,
    pub kind: Kind,
    pub content_id: Uuid,
    /// `None`: the content is in personal space.
    pub workspace_id: Option<WorkspaceId>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    /// `None` until the user answers.
    pub confirmed: Option<bool>,
}

/// Stores a confirmation, unless the user has `most` that have not expired; `false`: there are as many.
pub async fn insert(db: &Connection, new: &Confirmation, most: i64) -> Result<bool, Error> {
    let inserted = db
        .execute(
            r"insert into confirmations
                  (id, shard, user_id, client_id, kind, content_id, workspace_id, created_at, expires_at)
              select $1, $2, $3, $4, $5, $6, $7, $8, $9
               where (select count(*) from confirmations
                       where user_id = $3 and shard = $2 and expires_at > $8) < $10",
            &[
                &new.id.uuid(),
                &new.user_id.shard().number(),
                &new.user_id.uuid(),
                &new.client_id,
                &new.kind.prefix(),
                &new.content_id,
                &new.workspace_id.map(WorkspaceId::uuid),
                &new.created_at,
                &new.expires_at,
                &most,
            ],
        )
        .await?;
    Ok(inserted == 1)
}

/// Finds an unexpired confirmation of a user.
pub async fn find(
    db: &Connection,
    user_id: UserId,
    id: ConfirmationId,
    now: Timestamp,
) -> Result<Option<Confirmation>, Error> {
    let sql = r"select client_id, kind, content_id, workspace_id, created_at, expires_at, confirmed from confirmations
                 where id = $1 and shard = $2 and user_id = $3 and expires_at > $4";
    let row = db.query_opt(sql, &[&id.uuid(), &user_id.shard().number(), &user_id.uuid(), &now]).await?;
    row.map(|row| {
        let kind: &str = row.try_get("kind")?;
        let kind = Kind::ALL.into_iter().find(|known| known.prefix() == kind);
        Ok(Confirmation {
            id,
            user_id,
            client_id: row.try_get("client_id")?,
            kind: kind.ok_or_else(|| super::impossible("confirmations", "kind"))?,
            content_id: row.try_get("content_id")?,
            workspace_id: row.try_get::<_, Option<Uuid>>("workspace_id")?.map(Into::into),
            created_at: row.try_get("created_at")?,
            expires_at: row.try_get("expires_at")?,
            confirmed: row.try_get("confirmed")?,
        })
    })
    .transpose()
}

/// Records the answer of the user; `false`: there is nothing to answer, or it was answered before.
pub async fn answer(
    db: &Connection,
    user_id: UserId,
    id: ConfirmationId,
    confirmed: bool,
    now: Timestamp,
) -> Result<bool, Error> {
    let sql = r"update confirmations set confirmed = $4
                 where id = $1 and shard = $2 and user_id = $3 and confirmed is null and expires_at > $5";
    let shard = user_id.shard().number();
    Ok(db.execute(sql, &[&id.uuid(), &shard, &user_id.uuid(), &confirmed, &now]).await? == 1)
}

/// Deletes a confirmation that was used.
pub async fn delete(db: &Connection, user_id: UserId, id: ConfirmationId) -> Result<(), Error> {
    let sql = r"delete from confirmations where id = $1 and shard = $2 and user_id = $3";
    db.execute(sql, &[&id.uuid(), &user_id.shard().number(), &user_id.uuid()]).await.map(drop)
}

pub async fn delete_expired(db: &Connection, batch: Batch) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from confirmations where id in
              (select id from confirmations where expires_at <= $1 limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}
