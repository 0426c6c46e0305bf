//! Erasing an account: what is stored about one user, in the tables where it would stay.
//!
//! Rows that expire by themselves are not deleted here: codes, sign-ins in progress and idempotency keys in workspaces within a day, and
//! invitations that others sent to the address within 7 days. `tests/it/account/erasure.rs` compares this with every table.

use service_api::ids::{Id as _, UserId, WorkspaceId};
use service_rules::Timestamp;
use uuid::Uuid;

use crate::{
    database::{Connection, Error},
    store::emails::{self, EmailKey},
};

/// Statements that each delete up to `$3` rows of the user `$1` in the shard `$2`.
pub const ROWS_OF_USER: [&str; 15] = [
    r"delete from grants where shard = $2 and id in
          (select id from grants where user_id = $1 and shard = $2 limit $3)",
    r"delete from cli_tokens where shard = $2 and id in
          (select id from cli_tokens where user_id = $1 and shard = $2 limit $3)",
    r"delete from browser_sessions where shard = $2 and id in
          (select id from browser_sessions where user_id = $1 and shard = $2 limit $3)",
    r"delete from consents where user_id = $1 and shard = $2 and id in
          (select id from consents where user_id = $1 and shard = $2 limit $3)",
    r"delete from confirmations where shard = $2 and id in
          (select id from confirmations where user_id = $1 and shard = $2 limit $3)",
    r"delete from sign_in_reports where shard = $2 and digest in
          (select digest from sign_in_reports where user_id = $1 and shard = $2 limit $3)",
    r"delete from account_exports where shard = $2 and id in
          (select id from account_exports where user_id = $1 and shard = $2 limit $3)",
    r"delete from sent_invitations where user_id = $1 and shard = $2 and id in
          (select id from sent_invitations where user_id = $1 and shard = $2 limit $3)",
    r"delete from blocked_workspaces where user_id = $1 and shard = $2 and workspace_id in
          (select workspace_id from blocked_workspaces where user_id = $1 and shard = $2 limit $3)",
    r"delete from idempotency_keys where space_id = $1 and user_id = $1 and shard = $2 and key in
          (select key from idempotency_keys where space_id = $1 and user_id = $1 and shard = $2 limit $3)",
    r"delete from recovery_codes where user_id = $1 and shard = $2 and $3::bigint > 0",
    r"delete from passkey_recoveries where user_id = $1 and shard = $2 and $3::bigint > 0",
    r"delete from address_changes where user_id = $1 and shard = $2 and $3::bigint > 0",
    r"delete from passkey_users where user_id = $1 and shard = $2 and $3::bigint > 0",
    r"delete from user_connections where user_id = $1 and shard = $2 and $3::bigint > 0",
];

/// Deletes up to `size` rows of a user by one of [`ROWS_OF_USER`]; returns how many.
pub async fn delete_rows(db: &Connection, statement: &str, user_id: UserId, size: i64) -> Result<u64, Error> {
    db.execute(statement, &[&user_id.uuid(), &user_id.shard().number(), &size]).await
}

/// Returns workspaces that a user is or was in, up to `limit`.
pub async fn list_workspaces(db: &Connection, user_id: UserId, limit: i64) -> Result<Vec<WorkspaceId>, Error> {
    let sql = r"select workspace_id from memberships where user_id = $1 and shard = $2 order by workspace_id limit $3";
    let rows = db.query(sql, &[&user_id.uuid(), &user_id.shard().number(), &limit]).await?;
    rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("workspace_id")?.into())).collect()
}

/// Deletes what says that a user is or was in a workspace.
pub async fn delete_membership(db: &Connection, user_id: UserId, workspace_id: WorkspaceId) -> Result<(), Error> {
    let sql = r"delete from members where workspace_id = $1 and user_id = $2 and shard = $3";
    db.execute(sql, &[&workspace_id.uuid(), &user_id.uuid(), &workspace_id.shard().number()]).await?;
    let sql = r"delete from memberships where user_id = $1 and workspace_id = $2 and shard = $3";
    db.execute(sql, &[&user_id.uuid(), &workspace_id.uuid(), &user_id.shard().number()]).await.map(drop)
}

/// Lets the content of a deleted workspace be deleted as if it had been deleted at `deleted_at`.
pub async fn date_back_deletion(
    db: &Connection,
    workspace_id: WorkspaceId,
    deleted_at: Timestamp,
) -> Result<(), Error> {
    let sql = r"update workspaces set deleted_at = $2 where id = $1 and shard = $3 and deleted_at is not null";
    db.execute(sql, &[&workspace_id.uuid(), &deleted_at, &workspace_id.shard().number()]).await.map(drop)
}

/// Deletes the identities of a user at the providers of all connections, and what was derived from them in the meantime.
pub async fn delete_identities(db: &Connection, user_id: UserId) -> Result<(), Error> {
    let sql = r"delete from user_connections where user_id = $1 and shard = $2";
    db.execute(sql, &[&user_id.uuid(), &user_id.shard().number()]).await?;
    db.execute(r"/* every shard */ delete from identities where user_id = $1", &[&user_id.uuid()]).await.map(drop)
}

/// Deletes an account and its address. The address can be signed in with again, as a new account.
pub async fn delete_user(db: &Connection, user_id: UserId, email: EmailKey<'_>) -> Result<(), Error> {
    emails::delete(db, email, user_id).await?;
    let sql = r"delete from users where id = $1 and shard = $2";
    db.execute(sql, &[&user_id.uuid(), &user_id.shard().number()]).await.map(drop)
}
