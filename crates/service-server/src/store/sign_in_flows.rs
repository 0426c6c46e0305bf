//! Table `sign_in_flows`: sign-ins in progress in a browser.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use service_api::ids::{BrowserSessionId, ConnectionId, FlowId, Id as _, OtpId, UserId, WorkspaceId};
use service_rules::{Timestamp, authorization::AuthorizationRequest, email::Address};
use tokio_postgres::{Row, types::Json};
use uuid::Uuid;

use crate::database::{Connection, Error};

/// Codes that are looked at when a user asks for another one. Of one known device, only the latest works.
const MAX_SENT_CODES: i64 = 5;

/// A sign-in in progress.
pub struct SignInFlow {
    pub id: FlowId,
    pub wish: SignInPurpose,
    /// The address that the user entered, or that a code was sent to.
    pub email: Option<Address>,
    pub otp_id: Option<OtpId>,
    pub resend_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub finished: bool,
    /// The connection that the user is to sign in through.
    pub connection_id: Option<ConnectionId>,
    /// An identity that signed in at its provider and is not linked with its account yet.
    pub unlinked: Option<UnlinkedIdentity>,
    /// The user who entered the right code, and requires a passkey. Not signed in.
    pub waiting: Option<WaitingUser>,
}

/// A user who entered the right code in a flow, and has to use a passkey.
#[derive(Clone, Copy, Debug)]
pub struct WaitingUser {
    pub user_id: UserId,
    pub entered_at: Timestamp,
}

/// An identity that signed in at the provider of a flow's connection, and whose account exists without it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UnlinkedIdentity {
    pub subject: String,
    pub email: String,
    /// When the user authenticated at the provider, if that is known.
    pub auth_time: Option<Timestamp>,
}

/// A page of a workspace: that of one connection, or the workspace's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspacePlace {
    pub workspace_id: WorkspaceId,
    pub connection_id: Option<ConnectionId>,
}

/// What the user does after signing in.
pub enum SignInPurpose {
    /// Opens the account page.
    Account,
    /// Returns to a page of a workspace, to change something that needs a recent sign-in.
    Workspace(WorkspacePlace),
    /// Answers the authorization request of a client.
    Access(AuthorizationRequest),
    /// Answers an authorization request that cannot be checked before the client's metadata document is fetched. These
    /// are its parameters as they were sent, all untrusted.
    Unread(Vec<(String, String)>),
    /// Reads what the provider of this connection sends, without being signed in.
    TryConnection(ConnectionId),
}

impl SignInFlow {
    /// Returns the client's authorization request, if it was checked.
    #[must_use]
    pub const fn request(&self) -> Option<&AuthorizationRequest> {
        match &self.wish {
            SignInPurpose::Access(request) => Some(request),
            SignInPurpose::Account
            | SignInPurpose::Workspace(_)
            | SignInPurpose::Unread(_)
            | SignInPurpose::TryConnection(_) => None,
        }
    }
}

/// Stores a flow.
pub async fn insert(
    db: &Connection,
    id: FlowId,
    browser: BrowserSessionId,
    wish: &SignInPurpose,
    lifetime: Range<Timestamp>,
) -> Result<(), Error> {
    let (mut request, mut parameters, mut tried, mut return_to) = (None, None, None, None);
    match wish {
        SignInPurpose::Account => {}
        SignInPurpose::Workspace(place) => return_to = Some(Json(place)),
        SignInPurpose::Access(wanted) => request = Some(Json(wanted)),
        SignInPurpose::Unread(unread) => parameters = Some(Json(unread)),
        SignInPurpose::TryConnection(connection_id) => tried = Some(connection_id.uuid()),
    }
    db.execute(
        r"insert into sign_in_flows
              (id, shard, browser_id, request, parameters, created_at, expires_at, sso_connection_id, sso_try,
               return_to)
          values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        &[
            &id.uuid(),
            &id.shard().number(),
            &browser.uuid(),
            &request,
            &parameters,
            &lifetime.start,
            &lifetime.end,
            &tried,
            &tried.is_some(),
            &return_to,
        ],
    )
    .await
    .map(drop)
}

/// Returns a flow of this browser. In another browser the flow does not exist.
pub async fn find(
    db: &Connection,
    id: FlowId,
    browser: BrowserSessionId,
    now: Timestamp,
) -> Result<Option<SignInFlow>, Error> {
    let row = db
        .query_opt(
            r"select request, parameters, email, otp_id, resend_at, created_at, finished_at is not null as finished,
                     sso_connection_id, sso_identity, coalesce(sso_try, false) as sso_try, return_to, code_user_id,
                     code_entered_at
                from sign_in_flows where id = $1 and shard = $4 and browser_id = $2 and expires_at > $3",
            &[&id.uuid(), &browser.uuid(), &now, &id.shard().number()],
        )
        .await?;
    let Some(row) = row else { return Ok(None) };
    let request = row.try_get::<_, Option<Json<AuthorizationRequest>>>("request")?;
    let parameters = row.try_get::<_, Option<Json<Vec<(String, String)>>>>("parameters")?;
    let connection_id = row.try_get::<_, Option<Uuid>>("sso_connection_id")?.map(ConnectionId::from);
    let return_to = row.try_get::<_, Option<Json<WorkspacePlace>>>("return_to")?;
    let wish = match (request, parameters, connection_id.filter(|_| row.get("sso_try")), return_to) {
        (Some(Json(request)), ..) => SignInPurpose::Access(request),
        (None, Some(Json(parameters)), ..) => SignInPurpose::Unread(parameters),
        (None, None, Some(tried), _) => SignInPurpose::TryConnection(tried),
        (None, None, None, Some(Json(place))) => SignInPurpose::Workspace(place),
        (None, None, None, None) => SignInPurpose::Account,
    };
    let unlinked = row.try_get::<_, Option<Json<UnlinkedIdentity>>>("sso_identity")?;
    let email = row.try_get::<_, Option<&str>>("email")?.map(Address::parse).transpose();
    let code_user = row.try_get::<_, Option<Uuid>>("code_user_id")?.map(UserId::from);
    let waiting = code_user.zip(row.try_get("code_entered_at")?);
    Ok(Some(SignInFlow {
        id,
        wish,
        email: email.map_err(|_| super::impossible("sign_in_flows", "email"))?,
        otp_id: row.try_get::<_, Option<Uuid>>("otp_id")?.map(Into::into),
        resend_at: row.try_get("resend_at")?,
        created_at: row.try_get("created_at")?,
        finished: row.try_get("finished")?,
        connection_id,
        unlinked: unlinked.map(|Json(identity)| identity),
        waiting: waiting.map(|(user_id, entered_at)| WaitingUser { user_id, entered_at }),
    }))
}

/// Stores the authorization request that the flow's parameters amount to.
pub async fn set_request(db: &Connection, id: FlowId, request: &AuthorizationRequest) -> Result<(), Error> {
    let sql =
        r"update sign_in_flows set request = $2, parameters = null where id = $1 and shard = $3 and request is null";
    db.execute(sql, &[&id.uuid(), &Json(request), &id.shard().number()]).await.map(drop)
}

/// Records the address that a code was sent to.
pub async fn mark_sent(
    db: &Connection,
    id: FlowId,
    email: &Address,
    otp_id: OtpId,
    resend_at: Timestamp,
) -> Result<(), Error> {
    db.execute(
        r"update sign_in_flows set email = $2, otp_id = $3, resend_at = $4, code_user_id = null, code_entered_at = null
           where id = $1 and shard = $5",
        &[&id.uuid(), &email.as_str(), &otp_id.uuid(), &resend_at, &id.shard().number()],
    )
    .await
    .map(drop)
}

/// Records that a user entered the right code, and has to use a passkey.
pub async fn set_waiting(db: &Connection, id: FlowId, waiting: WaitingUser) -> Result<(), Error> {
    let sql = r"update sign_in_flows set code_user_id = $2, code_entered_at = $3 where id = $1 and shard = $4";
    db.execute(sql, &[&id.uuid(), &waiting.user_id.uuid(), &waiting.entered_at, &id.shard().number()]).await.map(drop)
}

/// Whether a user still waits in a flow. Locks the flow: it does not change before this transaction ends.
pub async fn lock_waiting(db: &Connection, id: FlowId, user_id: UserId) -> Result<bool, Error> {
    let sql = r"select from sign_in_flows
                 where id = $1 and shard = $3 and code_user_id = $2 and finished_at is null for update";
    Ok(db.query_opt(sql, &[&id.uuid(), &user_id.uuid(), &id.shard().number()]).await?.is_some())
}

/// A code that was sent to an address for a flow.
pub struct SentCode {
    pub otp_id: OtpId,
    pub resend_at: Timestamp,
}

/// Returns the codes that this browser had sent to an address in the flows that it can still continue, the latest first.
pub async fn list_sent(
    db: &Connection,
    browser: BrowserSessionId,
    email: &Address,
    now: Timestamp,
) -> Result<Vec<SentCode>, Error> {
    let rows = db
        .query(
            r"select otp_id, resend_at from sign_in_flows
               where browser_id = $1 and shard = $2 and email = $3 and expires_at > $4 and finished_at is null
                 and otp_id is not null and resend_at is not null and sso_identity is null
               order by resend_at desc limit $5",
            &[&browser.uuid(), &browser.shard().number(), &email.as_str(), &now, &MAX_SENT_CODES],
        )
        .await?;
    let sent = |row: &Row| {
        let otp_id = row.try_get::<_, Uuid>("otp_id")?.into();
        Ok(SentCode { otp_id, resend_at: row.try_get("resend_at")? })
    };
    rows.iter().map(sent).collect()
}

/// Records the connection that the user is to sign in through, and the address that they entered. `None`: the user signs in
/// by a code.
pub async fn choose_connection(
    db: &Connection,
    id: FlowId,
    connection_id: Option<ConnectionId>,
    email: Option<&Address>,
) -> Result<(), Error> {
    db.execute(
        r"update sign_in_flows
             set sso_connection_id = $2, sso_digest = null, sso_identity = null, email = coalesce($3, email),
                 code_user_id = null, code_entered_at = null
           where id = $1 and shard = $4",
        &[&id.uuid(), &connection_id.map(ConnectionId::uuid), &email.map(Address::as_str), &id.shard().number()],
    )
    .await
    .map(drop)
}

/// What the response of a provider must match: the flow, its browser, its connection, and the secret in `state`.
pub struct StateKey<'a> {
    pub flow_id: FlowId,
    pub browser_id: BrowserSessionId,
    pub connection_id: ConnectionId,
    /// The SHA-256 of the secret.
    pub digest: &'a [u8; 32],
}

/// Records that a browser is sent to the provider of a connection. `forced`: the provider is told to ask the user to sign in
/// again. `false`: the flow is finished.
pub async fn set_state(db: &Connection, key: &StateKey<'_>, forced: bool) -> Result<bool, Error> {
    let changed = db
        .execute(
            r"update sign_in_flows set sso_connection_id = $3, sso_digest = $4, sso_forced = $5, sso_identity = null
               where id = $1 and shard = $6 and browser_id = $2 and finished_at is null",
            &[
                &key.flow_id.uuid(),
                &key.browser_id.uuid(),
                &key.connection_id.uuid(),
                &key.digest.as_slice(),
                &forced,
                &key.flow_id.shard().number(),
            ],
        )
        .await?;
    Ok(changed == 1)
}

/// Takes the state of a flow when the provider's response arrives, so that a second response is refused. Returns whether the
/// provider was told to ask the user to sign in again; `None`: the response belongs to no flow that waits for it.
pub async fn take_state(db: &Connection, key: &StateKey<'_>, now: Timestamp) -> Result<Option<bool>, Error> {
    let row = db
        .query_opt(
            r"update sign_in_flows set sso_digest = null
               where id = $1 and shard = $6 and browser_id = $2 and sso_connection_id = $3 and sso_digest = $4
                 and expires_at > $5 and finished_at is null
              returning coalesce(sso_forced, false) as forced",
            &[
                &key.flow_id.uuid(),
                &key.browser_id.uuid(),
                &key.connection_id.uuid(),
                &key.digest.as_slice(),
                &now,
                &key.flow_id.shard().number(),
            ],
        )
        .await?;
    row.map(|row| Ok(row.try_get("forced")?)).transpose()
}

/// Stores an identity until its user has proved by a code that the account is theirs. Codes that were sent before do not
/// count. `false`: the user has chosen another connection meanwhile.
pub async fn set_unlinked(
    db: &Connection,
    id: FlowId,
    connection_id: ConnectionId,
    identity: &UnlinkedIdentity,
) -> Result<bool, Error> {
    let sql = r"update sign_in_flows set sso_identity = $2, otp_id = null, resend_at = null
                 where id = $1 and shard = $3 and sso_connection_id = $4";
    let updated = db.execute(sql, &[&id.uuid(), &Json(identity), &id.shard().number(), &connection_id.uuid()]).await?;
    Ok(updated == 1)
}

/// Finishes a flow; `false`: it was finished before.
pub async fn mark_finished(db: &Connection, id: FlowId, now: Timestamp) -> Result<bool, Error> {
    let sql = r"update sign_in_flows set finished_at = $2 where id = $1 and shard = $3 and finished_at is null";
    Ok(db.execute(sql, &[&id.uuid(), &now, &id.shard().number()]).await? == 1)
}

/// Gives the flows of a browser to its new session, whose id is in another shard.
pub async fn update_browser(db: &Connection, from: BrowserSessionId, to: BrowserSessionId) -> Result<(), Error> {
    let sql = r"update sign_in_flows set browser_id = $3 where browser_id = $1 and shard = $2";
    db.execute(sql, &[&from.uuid(), &from.shard().number(), &to.uuid()]).await.map(drop)
}

/// Deletes a batch of expired flows.
pub async fn delete_expired(db: &Connection, batch: super::Batch) -> Result<u64, Error> {
    db.execute(
        r"/* housekeeping */ delete from sign_in_flows where id in
              (select id from sign_in_flows where expires_at <= $1 limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}
