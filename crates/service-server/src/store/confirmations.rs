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
    /// The version of the content that the user is asked about.
    pub version: i64,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    /// `None` until the user answers.
    pub confirmed: Option<bool>,
}

/// Finds the confirmation of the same content that waits already.
pub async fn find_waiting(db: &Connection, new: &Confirmation) -> Result<Option<ConfirmationId>, Error> {
    let sql = r"select id from confirmations
                 where user_id = $1 and shard = $2 and client_id = $3 and kind = $4 and content_id = $5 and version = $6
                   and workspace_id is not distinct from $7 and confirmed is null and expires_at > $8
                 limit 1";
    let shard = new.user_id.shard().number();
    let workspace_id = new.workspace_id.map(WorkspaceId::uuid);
    let row = db
        .query_opt(
            sql,
            &[
                &new.user_id.uuid(),
                &shard,
                &new.client_id,
                &new.kind.prefix(),
                &new.content_id,
                &new.version,
                &workspace_id,
                &new.created_at,
            ],
        )
        .await?;
    row.map(|row| Ok(row.try_get::<_, Uuid>("id")?.into())).transpose()
}

/// Stores a confirmation, unless `most` of the client wait for the user; `false`: there are as many.
pub async fn insert(db: &Connection, new: &Confirmation, most: i64) -> Result<bool, Error> {
    let inserted = db
        .execute(
            r"insert into confirmations
                  (id, shard, user_id, client_id, kind, content_id, workspace_id, created_at, expires_at, version)
              select $1, $2, $3, $4, $5, $6, $7, $8, $9, $11
               where (select count(*) from confirmations
                       where user_id = $3 and shard = $2 and client_id = $4 and confirmed is null
                         and expires_at > $8) < $10",
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
                &new.version,
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
    let sql = r"select client_id, kind, content_id, workspace_id, version, created_at, expires_at, confirmed
                  from confirmations
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
            version: row.try_get("version")?,
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

/// Deletes all confirmations of a user for a content that was deleted.
pub async fn delete_by_content(db: &Connection, user_id: UserId, kind: Kind, content_id: Uuid) -> Result<(), Error> {
    let sql = r"delete from confirmations where user_id = $1 and shard = $2 and kind = $3 and content_id = $4";
    db.execute(sql, &[&user_id.uuid(), &user_id.shard().number(), &kind.prefix(), &content_id]).await.map(drop)
}

pub async fn delete_expired(db: &Connection, batch: Batch) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from confirmations where id in
              (select id from confirmations where expires_at <= $1 limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}
