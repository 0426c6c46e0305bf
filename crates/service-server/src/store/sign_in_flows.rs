//! Table `sign_in_flows`: sign-ins in progress in a browser.

use std::ops::Range;

use service_api::ids::{BrowserSessionId, FlowId, Id as _, OtpId};
use service_rules::{Timestamp, authorization::AuthorizationRequest, email::Address};
use tokio_postgres::types::Json;
use uuid::Uuid;

use crate::database::{Connection, Error};

/// A sign-in in progress.
pub struct SignInFlow {
    pub id: FlowId,
    pub wish: SignInPurpose,
    /// The address that a code was sent to.
    pub email: Option<Address>,
    pub otp_id: Option<OtpId>,
    pub resend_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub finished: bool,
}

/// What the user does after signing in.
pub enum SignInPurpose {
    /// Opens the account page.
    Account,
    /// Answers the authorization request of a client.
    Access(AuthorizationRequest),
    /// Answers an authorization request that cannot be checked before the client's metadata document is fetched. These
    /// are its parameters as they were sent, all untrusted.
    Unread(Vec<(String, String)>),
}

impl SignInFlow {
    /// Returns the client's authorization request, if it was checked.
    #[must_use]
    pub const fn request(&self) -> Option<&AuthorizationRequest> {
        match &self.wish {
            SignInPurpose::Access(request) => Some(request),
            SignInPurpose::Account | SignInPurpose::Unread(_) => None,
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
    let (request, parameters) = match wish {
        SignInPurpose::Account => (None, None),
        SignInPurpose::Access(request) => (Some(Json(request)), None),
        SignInPurpose::Unread(parameters) => (None, Some(Json(parameters))),
    };
    db.execute(
        r"insert into sign_in_flows (id, shard, browser_id, request, parameters, created_at, expires_at)
          values ($1, $2, $3, $4, $5, $6, $7)",
        &[&id.uuid(), &id.shard().number(), &browser.uuid(), &request, &parameters, &lifetime.start, &lifetime.end],
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
            r"select request, parameters, email, otp_id, resend_at, created_at, finished_at is not null as finished
                from sign_in_flows where id = $1 and shard = $4 and browser_id = $2 and expires_at > $3",
            &[&id.uuid(), &browser.uuid(), &now, &id.shard().number()],
        )
        .await?;
    let Some(row) = row else { return Ok(None) };
    let request = row.try_get::<_, Option<Json<AuthorizationRequest>>>("request")?;
    let parameters = row.try_get::<_, Option<Json<Vec<(String, String)>>>>("parameters")?;
    let wish = match (request, parameters) {
        (Some(Json(request)), _) => SignInPurpose::Access(request),
        (None, Some(Json(parameters))) => SignInPurpose::Unread(parameters),
        (None, None) => SignInPurpose::Account,
    };
    let email = row.try_get::<_, Option<&str>>("email")?.map(Address::parse).transpose();
    Ok(Some(SignInFlow {
        id,
        wish,
        email: email.map_err(|_| super::impossible("sign_in_flows", "email"))?,
        otp_id: row.try_get::<_, Option<Uuid>>("otp_id")?.map(Into::into),
        resend_at: row.try_get("resend_at")?,
        created_at: row.try_get("created_at")?,
        finished: row.try_get("finished")?,
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
        r"update sign_in_flows set email = $2, otp_id = $3, resend_at = $4 where id = $1 and shard = $5",
        &[&id.uuid(), &email.as_str(), &otp_id.uuid(), &resend_at, &id.shard().number()],
    )
    .await
    .map(drop)
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
