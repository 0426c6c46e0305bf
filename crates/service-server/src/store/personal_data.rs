//! What tables hold about a user and no list of the API shows, or not in full, for exports: the account, memberships, invitations,
//! consents and deletions that wait. See `personal_sign_ins.rs` for what is about signing in.

use serde::Serialize;
use service_api::{
    Timestamp,
    address_change::AddressChange,
    ids::{ConfirmationId, ConnectionId, ConsentId, Id as _, InvitationId, UserId, WorkspaceId, write},
    instant,
    scope::Scopes,
};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::{
    database::{Connection, Error},
    store::{emails::EmailKey, recovery_codes::RecoveryCodesLeft},
};

/// The account of a user.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountData {
    pub id: UserId,
    pub email: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub requires_passkey: bool,
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    /// When the user first proved to own the address.
    #[serde(skip_serializing_if = "Option::is_none", with = "instant::WrittenIfAny")]
    pub email_verified_at: Option<Timestamp>,
    /// Until when no mail is sent to the address, because mail to it bounced.
    #[serde(skip_serializing_if = "Option::is_none", with = "instant::WrittenIfAny")]
    pub mail_suppressed_until: Option<Timestamp>,
    /// When all passkeys will be removed, because the user asked for it.
    #[serde(skip_serializing_if = "Option::is_none", with = "instant::WrittenIfAny")]
    pub passkey_removal_due_at: Option<Timestamp>,
    /// The change of the address that the user has requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address_change: Option<AddressChange>,
    /// The recovery codes that are left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery_codes: Option<RecoveryCodesLeft>,
    /// How the user last signed in through their company.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single_sign_on: Option<LastConnection>,
}

/// The connection that a user signs in with.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LastConnection {
    pub connection_id: ConnectionId,
    /// What the company's provider calls the user. Absent: the user never signed in through it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    #[serde(with = "instant::Written")]
    pub signed_in_at: Timestamp,
    /// Until when the user's tokens work without another sign-in through the company.
    #[serde(with = "instant::Written")]
    pub tokens_until: Timestamp,
}

/// Returns when a user first proved to own an address.
pub async fn find_email_verified_at(db: &Connection, email: EmailKey<'_>) -> Result<Option<Timestamp>, Error> {
    let sql = r"select verified_at from emails where address = $1 and shard = $2";
    let row = db.query_opt(sql, &[&email.address.as_str(), &email.shard.number()]).await?;
    row.map(|row| Ok(row.try_get("verified_at")?)).transpose()
}

/// Returns the connection that a user signs in with.
pub async fn find_last_connection(db: &Connection, user_id: UserId) -> Result<Option<LastConnection>, Error> {
    let sql = r"select connection_id, subject, signed_in_at, tokens_until from user_connections
                 where user_id = $1 and shard = $2";
    let row = db.query_opt(sql, &[&user_id.uuid(), &user_id.shard().number()]).await?;
    let read = |row: Row| {
        Ok(LastConnection {
            connection_id: row.try_get::<_, Uuid>("connection_id")?.into(),
            subject: row.try_get("subject")?,
            signed_in_at: row.try_get("signed_in_at")?,
            tokens_until: row.try_get("tokens_until")?,
        })
    };
    row.map(read).transpose()
}

/// A workspace that a user is or was a member of.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MembershipData {
    pub workspace_id: WorkspaceId,
    pub role: String,
    #[serde(with = "instant::Written")]
    pub joined_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none", with = "instant::WrittenIfAny")]
    pub ended_at: Option<Timestamp>,
}

/// Returns up to `limit` memberships of a user after `after`, also those that have ended.
pub async fn list_memberships(
    db: &Connection,
    user_id: UserId,
    after: Uuid,
    limit: i64,
) -> Result<Vec<MembershipData>, Error> {
    let sql = r"select workspace_id, role, created_at, ended_at from memberships
                 where user_id = $1 and shard = $2 and workspace_id > $3 order by workspace_id limit $4";
    let rows = db.query(sql, &[&user_id.uuid(), &user_id.shard().number(), &after, &limit]).await?;
    let read = |row: &Row| {
        Ok(MembershipData {
            workspace_id: row.try_get::<_, Uuid>("workspace_id")?.into(),
            role: row.try_get("role")?,
            joined_at: row.try_get("created_at")?,
            ended_at: row.try_get("ended_at")?,
        })
    };
    rows.iter().map(read).collect()
}

/// An invitation that a user sent and that was not accepted.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SentInvitationData {
    pub id: InvitationId,
    pub workspace_id: WorkspaceId,
    /// The address that the user entered.
    pub email: String,
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    #[serde(with = "instant::Written")]
    pub expires_at: Timestamp,
    /// The session or the browser that sent it.
    pub made_by: String,
}

/// Returns up to `limit` invitations that a user sent after `after`.
pub async fn list_sent_invitations(
    db: &Connection,
    user_id: UserId,
    after: Uuid,
    limit: i64,
) -> Result<Vec<SentInvitationData>, Error> {
    let sql = r"select id, workspace_id, address, made_by, created_at, expires_at from sent_invitations
                 where user_id = $1 and shard = $2 and id > $3 order by id limit $4";
    let rows = db.query(sql, &[&user_id.uuid(), &user_id.shard().number(), &after, &limit]).await?;
    let read = |row: &Row| {
        Ok(SentInvitationData {
            id: row.try_get::<_, Uuid>("id")?.into(),
            workspace_id: row.try_get::<_, Uuid>("workspace_id")?.into(),
            email: row.try_get("address")?,
            created_at: row.try_get("created_at")?,
            expires_at: row.try_get("expires_at")?,
            made_by: row.try_get("made_by")?,
        })
    };
    rows.iter().map(read).collect()
}

/// The access that a user gave to one of our own clients, which the list of apps leaves out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnClientData {
    pub id: ConsentId,
    pub client_id: String,
    pub redirect_host: String,
    pub resource: String,
    pub scopes: Scopes,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    #[serde(with = "instant::Written")]
    pub granted_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none", with = "instant::WrittenIfAny")]
    pub last_used_at: Option<Timestamp>,
}

/// Returns what a user agreed to for our own clients.
pub async fn list_own_clients(db: &Connection, user_id: UserId) -> Result<Vec<OwnClientData>, Error> {
    let sql = r"select o.id, o.client_id, o.redirect_host, o.audience, o.scopes, o.workspace_id, o.agreed_at, o.used_at
                  from consents o join clients c on c.id = o.client_id and c.kind = 'first_party'
                 where o.user_id = $1 and o.shard = $2 order by o.id";
    let rows = db.query(sql, &[&user_id.uuid(), &user_id.shard().number()]).await?;
    let read = |row: &Row| {
        Ok(OwnClientData {
            id: row.try_get::<_, Uuid>("id")?.into(),
            client_id: row.try_get("client_id")?,
            redirect_host: row.try_get("redirect_host")?,
            resource: row.try_get("audience")?,
            scopes: Scopes::parse(row.try_get("scopes")?),
            workspace_id: row.try_get::<_, Option<Uuid>>("workspace_id")?.map(Into::into),
            granted_at: row.try_get("agreed_at")?,
            last_used_at: row.try_get("used_at")?,
        })
    };
    rows.iter().map(read).collect()
}

/// A deletion that an app asked the user to confirm.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfirmationData {
    pub id: ConfirmationId,
    pub client_id: String,
    /// The id of the content.
    pub content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    #[serde(with = "instant::Written")]
    pub expires_at: Timestamp,
    /// What the user answered. Absent: nothing yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmed: Option<bool>,
}

/// Returns the deletions that a user was asked to confirm.
pub async fn list_confirmations(db: &Connection, user_id: UserId) -> Result<Vec<ConfirmationData>, Error> {
    let sql = r"select id, client_id, kind, content_id, workspace_id, created_at, expires_at, confirmed from confirmations
                 where user_id = $1 and shard = $2 order by id";
    let rows = db.query(sql, &[&user_id.uuid(), &user_id.shard().number()]).await?;
    let read = |row: &Row| {
        Ok(ConfirmationData {
            id: row.try_get::<_, Uuid>("id")?.into(),
            client_id: row.try_get("client_id")?,
            content: write(row.try_get("kind")?, row.try_get("content_id")?),
            workspace_id: row.try_get::<_, Option<Uuid>>("workspace_id")?.map(Into::into),
            created_at: row.try_get("created_at")?,
            expires_at: row.try_get("expires_at")?,
            confirmed: row.try_get("confirmed")?,
        })
    };
    rows.iter().map(read).collect()
}
