//! What tables hold about a user's sign-ins and no list of the API shows, or not in full, for exports: sessions that have ended,
//! devices, identities, mails about sign-ins, and codes. Secrets and digests are left out.

use std::collections::BTreeMap;

use serde::Serialize;
use service_api::{
    Timestamp,
    ids::{ConnectionId, GrantId, Id as _, OtpId, UserId, WorkspaceId},
    instant,
    scope::Scopes,
};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::{
    database::{Connection, Error},
    store::emails::EmailKey,
};

/// A session that is not live any more.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndedSession {
    pub id: GrantId,
    pub client_id: String,
    pub scopes: Scopes,
    pub resource: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_id: Option<ConnectionId>,
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    pub created_from: String,
    #[serde(with = "instant::Written")]
    pub last_used_at: Timestamp,
    pub last_used_from: String,
    #[serde(with = "instant::Written")]
    pub expires_at: Timestamp,
    /// When the user authenticated.
    #[serde(skip_serializing_if = "Option::is_none", with = "instant::WrittenIfAny")]
    pub signed_in_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", with = "instant::WrittenIfAny")]
    pub revoked_at: Option<Timestamp>,
    /// Why it was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Which sessions are live.
#[derive(Clone, Copy)]
pub struct LiveAt {
    pub now: Timestamp,
    /// Sessions that were last refreshed before this moment are not live.
    pub used_after: Timestamp,
}

/// Returns up to `limit` sessions of a user after `after` that are not live.
pub async fn list_ended_sessions(
    db: &Connection,
    user_id: UserId,
    live: LiveAt,
    after: Uuid,
    limit: i64,
) -> Result<Vec<EndedSession>, Error> {
    let sql = r"select id, client_id, scopes, audience, workspace_id, connection_id, created_at, created_from, rotated_at,
                       rotated_from, expires_at, auth_time, made_by, revoked_at, revoked_because
                  from grants
                 where user_id = $1 and shard = $2 and id > $5
                   and (revoked_at is not null or expires_at <= $3 or rotated_at <= $4)
                 order by id limit $6";
    let shard = user_id.shard().number();
    let rows = db.query(sql, &[&user_id.uuid(), &shard, &live.now, &live.used_after, &after, &limit]).await?;
    let read = |row: &Row| {
        Ok(EndedSession {
            id: row.try_get::<_, Uuid>("id")?.into(),
            client_id: row.try_get("client_id")?,
            scopes: Scopes::parse(row.try_get("scopes")?),
            resource: row.try_get("audience")?,
            workspace_id: row.try_get::<_, Option<Uuid>>("workspace_id")?.map(Into::into),
            connection_id: row.try_get::<_, Option<Uuid>>("connection_id")?.map(Into::into),
            created_at: row.try_get("created_at")?,
            created_from: row.try_get("created_from")?,
            last_used_at: row.try_get("rotated_at")?,
            last_used_from: row.try_get("rotated_from")?,
            expires_at: row.try_get("expires_at")?,
            signed_in_at: row.try_get("auth_time")?,
            made_by: row.try_get("made_by")?,
            revoked_at: row.try_get("revoked_at")?,
            reason: row.try_get("revoked_because")?,
        })
    };
    rows.iter().map(read).collect()
}

/// A browser or a command that holds a device secret.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceData {
    /// When the user first signed in there.
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    /// 400 days after the last sign-in there.
    #[serde(with = "instant::Written")]
    pub expires_at: Timestamp,
}

/// Returns the devices of a user, with one statement for each shard of their digests.
pub async fn list_devices(db: &Connection, user_id: UserId) -> Result<Vec<DeviceData>, Error> {
    let sql = r"select digest from user_devices where user_id = $1 and shard = $2";
    let rows = db.query(sql, &[&user_id.uuid(), &user_id.shard().number()]).await?;
    let mut by_shard = BTreeMap::<_, Vec<Vec<u8>>>::new();
    for row in &rows {
        let digest: Vec<u8> = row.try_get("digest")?;
        by_shard.entry(super::shard_of_key(&digest)).or_default().push(digest);
    }
    let sql = r"select created_at, expires_at from devices where digest = any ($1) and shard = $2 and user_id = $3";
    let mut devices = Vec::new();
    for (shard, digests) in by_shard {
        for row in db.query(sql, &[&digests, &shard, &user_id.uuid()]).await? {
            devices.push(DeviceData { created_at: row.try_get("created_at")?, expires_at: row.try_get("expires_at")? });
        }
    }
    devices.sort_by_key(|device| (device.created_at, device.expires_at));
    Ok(devices)
}

/// A user as the provider of a company names them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IdentityData {
    pub connection_id: ConnectionId,
    pub subject: String,
    /// The address that the provider sent last.
    pub email: String,
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    #[serde(with = "instant::Written")]
    pub signed_in_at: Timestamp,
}

/// Returns the identities that are linked with a user.
pub async fn list_identities(db: &Connection, user_id: UserId) -> Result<Vec<IdentityData>, Error> {
    let sql = r"/* every shard */ select connection_id, subject, email, created_at, signed_in_at from identities
                 where user_id = $1 order by connection_id, subject";
    let rows = db.query(sql, &[&user_id.uuid()]).await?;
    let read = |row: &Row| {
        Ok(IdentityData {
            connection_id: row.try_get::<_, Uuid>("connection_id")?.into(),
            subject: row.try_get("subject")?,
            email: row.try_get("email")?,
            created_at: row.try_get("created_at")?,
            signed_in_at: row.try_get("signed_in_at")?,
        })
    };
    rows.iter().map(read).collect()
}

/// A mail about a new sign-in, whose link still works.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SignInReportData {
    /// The session or the browser that was signed in.
    pub session_id: String,
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    #[serde(with = "instant::Written")]
    pub expires_at: Timestamp,
}

/// Returns the sign-ins that a user was mailed about.
pub async fn list_sign_in_reports(db: &Connection, user_id: UserId) -> Result<Vec<SignInReportData>, Error> {
    let sql = r"select session_id, created_at, expires_at from sign_in_reports
                 where user_id = $1 and shard = $2 order by created_at, session_id";
    let rows = db.query(sql, &[&user_id.uuid(), &user_id.shard().number()]).await?;
    let read = |row: &Row| {
        let (created_at, expires_at) = (row.try_get("created_at")?, row.try_get("expires_at")?);
        Ok(SignInReportData { session_id: row.try_get("session_id")?, created_at, expires_at })
    };
    rows.iter().map(read).collect()
}

/// A code that was sent to the address of a user.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CodeData {
    pub id: OtpId,
    pub client_id: String,
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    #[serde(with = "instant::Written")]
    pub expires_at: Timestamp,
    /// The number of times that it was entered.
    pub attempts: i16,
    #[serde(skip_serializing_if = "Option::is_none", with = "instant::WrittenIfAny")]
    pub used_at: Option<Timestamp>,
}

/// Returns up to `limit` codes that were sent to an address, without the codes themselves, the latest first.
pub async fn list_codes(db: &Connection, email: EmailKey<'_>, limit: i64) -> Result<Vec<CodeData>, Error> {
    let sql = r"select id, client_id, created_at, expires_at, attempts, consumed_at from otps
                 where address = $1 and shard = $2 order by id desc limit $3";
    let rows = db.query(sql, &[&email.address.as_str(), &email.shard.number(), &limit]).await?;
    let read = |row: &Row| {
        Ok(CodeData {
            id: row.try_get::<_, Uuid>("id")?.into(),
            client_id: row.try_get("client_id")?,
            created_at: row.try_get("created_at")?,
            expires_at: row.try_get("expires_at")?,
            attempts: row.try_get("attempts")?,
            used_at: row.try_get("consumed_at")?,
        })
    };
    rows.iter().map(read).collect()
}
