//! Table `grants`: one row per sign-in.

use service_api::{
    ids::{GrantId, Id, UserId, WorkspaceId},
    scope::Scopes,
};
use service_rules::Timestamp;

use crate::database::{Connection, Error};

/// Generations of refresh tokens are counted from here; the one before was never issued.
pub const FIRST_GENERATION: i32 = 1;

pub struct NewGrant<'a> {
    pub id: GrantId,
    pub user_id: UserId,
    pub client_id: &'a str,
    pub scopes: Scopes,
    pub workspace_id: Option<WorkspaceId>,
    pub audience: &'a str,
    pub salt: [u8; 16],
    pub created_at: Timestamp,
    pub created_from: String,
    pub expires_at: Timestamp,
}

pub async fn insert(db: &Connection, grant: &NewGrant<'_>) -> Result<(), Error> {
    db.execute(
        r"insert into grants
              (id, user_id, client_id, scopes, workspace_id, audience, salt, base, issued,
               rotated_at, rotated_from, created_at, created_from, expires_at)
          values ($1, $2, $3, $4, $5, $6, $7, $8 - 1, $8, $9, $10, $9, $10, $11)",
        &[
            &grant.id.uuid(),
            &grant.user_id.uuid(),
            &grant.client_id,
            &grant.scopes.to_string(),
            &grant.workspace_id.map(Id::uuid),
            &grant.audience,
            &grant.salt.as_slice(),
            &FIRST_GENERATION,
            &grant.created_at,
            &grant.created_from,
            &grant.expires_at,
        ],
    )
    .await
    .map(drop)
}
