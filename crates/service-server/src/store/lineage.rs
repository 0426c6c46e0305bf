//! Lineage: what sessions created, read from the `made_by` columns of several tables.

use service_api::{
    ids::{
        AddressChangeId, CliTokenId, GrantId, Id as _, InvitationId, PasskeyId, RecoveryCodesId, UserId, WorkspaceId,
    },
    oauth::SERVICE_MCP,
};
use service_rules::{Timestamp, lineage::Made};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::{
    database::{Connection, Error},
    locales::Texts,
};

/// A live credential or invitation that a session created.
#[derive(Clone, Debug)]
pub struct LineageItem {
    pub kind: Made,
    pub key: Uuid,
    /// Its id in the API.
    pub id: String,
    /// The name that its user gave it; for an invitation and a change of the address, the email address.
    pub name: String,
    pub made_by: String,
    pub made_at: Timestamp,
    pub used_at: Option<Timestamp>,
    pub workspace_id: Option<WorkspaceId>,
}

impl LineageItem {
    /// Describes it for an email or a page.
    #[must_use]
    pub(crate) fn spoken(&self, texts: &Texts) -> String {
        texts.made(self.kind, &self.name, self.made_at)
    }
}

/// Returns what these sessions of a user created and what is still live, newest first.
pub async fn list_made(
    db: &Connection,
    user_id: UserId,
    makers: &[String],
    now: Timestamp,
) -> Result<Vec<LineageItem>, Error> {
    let rows = db
        .query(
            r"select 'cli_token' as kind, id, name || ' (' || hint || ')' as name, made_by, created_at, last_used_at as used_at,
                     workspace_id
                from cli_tokens
               where user_id = $1 and shard = $5 and made_by = any ($2) and revoked_at is null and expires_at > $3
               union all
              select case when g.client_id = $4 then 'mcp_pair' else 'app_session' end, g.id, c.name, g.made_by,
                     g.created_at, g.rotated_at, g.workspace_id
                from grants g join clients c on c.id = g.client_id
               where g.user_id = $1 and g.shard = $5 and g.made_by = any ($2) and g.revoked_at is null and g.expires_at > $3
               union all
              select 'invitation', id, address, made_by, created_at, null, workspace_id
                from sent_invitations
               where user_id = $1 and shard = $5 and made_by = any ($2) and expires_at > $3
               union all
              select 'passkey', id, name, made_by, created_at, last_used_at, null
                from passkeys
               where user_id = $1 and shard = $5 and made_by = any ($2)
               union all
              select 'recovery_codes', id, '', made_by, created_at, null, null
                from recovery_codes
               where user_id = $1 and shard = $5 and made_by = any ($2)
               union all
              select 'address_change', id, address, made_by, requested_at, null, null
                from address_changes
               where user_id = $1 and shard = $5 and made_by = any ($2) and (due_at is not null or expires_at > $3)
               order by created_at desc",
            &[&user_id.uuid(), &makers, &now, &SERVICE_MCP, &user_id.shard().number()],
        )
        .await?;
    rows.iter().map(found).collect()
}

/// Returns the sessions that these sessions of a user created and that have ended: what they created may still be live.
pub async fn list_ended(
    db: &Connection,
    user_id: UserId,
    makers: &[String],
    now: Timestamp,
) -> Result<Vec<GrantId>, Error> {
    let sql = r"select id from grants
                 where user_id = $1 and shard = $4 and made_by = any ($2) and (revoked_at is not null or expires_at <= $3)";
    let rows = db.query(sql, &[&user_id.uuid(), &makers, &now, &user_id.shard().number()]).await?;
    rows.iter().map(|row| Ok(row.try_get::<_, Uuid>("id")?.into())).collect()
}

fn found(row: &Row) -> Result<LineageItem, Error> {
    let key: Uuid = row.try_get("id")?;
    let (kind, id) = match row.try_get("kind")? {
        "cli_token" => (Made::CliToken, CliTokenId::from(key).to_string()),
        "mcp_pair" => (Made::McpPair, GrantId::from(key).to_string()),
        "app_session" => (Made::AppSession, GrantId::from(key).to_string()),
        "passkey" => (Made::Passkey, PasskeyId::from(key).to_string()),
        "address_change" => (Made::AddressChange, AddressChangeId::from(key).to_string()),
        "recovery_codes" => (Made::RecoveryCodes, RecoveryCodesId::from(key).to_string()),
        _ => (Made::Invitation, InvitationId::from(key).to_string()),
    };
    Ok(LineageItem {
        kind,
        key,
        id,
        name: row.try_get("name")?,
        made_by: row.try_get("made_by")?,
        made_at: row.try_get("created_at")?,
        used_at: row.try_get("used_at")?,
        workspace_id: row.try_get::<_, Option<Uuid>>("workspace_id")?.map(Into::into),
    })
}
