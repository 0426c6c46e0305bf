//! Table `sign_in_flows`: what is under way in a browser.

use service_api::ids::{BrowserSessionId, FlowId, Id as _, OtpId};
use service_rules::{Timestamp, authorization::Request};
use tokio_postgres::types::Json;
use uuid::Uuid;

use crate::database::{Connection, Error};

pub struct Flow {
    pub id: FlowId,
    /// What a client asked for; `None`: the person wants to see their account.
    pub request: Option<Request>,
    /// Whom a code was sent to.
    pub email: Option<String>,
    pub otp_id: Option<OtpId>,
    pub resend_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub finished: bool,
}

pub async fn insert(
    db: &Connection,
    id: FlowId,
    browser: BrowserSessionId,
    request: Option<&Request>,
    (now, expires_at): (Timestamp, Timestamp),
) -> Result<(), Error> {
    db.execute(
        r"insert into sign_in_flows (id, browser_id, request, created_at, expires_at) values ($1, $2, $3, $4, $5)",
        &[&id.uuid(), &browser.uuid(), &request.map(Json), &now, &expires_at],
    )
    .await
    .map(drop)
}

/// A flow of this browser; in any other it does not exist.
pub async fn find(
    db: &Connection,
    id: FlowId,
    browser: BrowserSessionId,
    now: Timestamp,
) -> Result<Option<Flow>, Error> {
    let row = db
        .query_opt(
            r"select request, email, otp_id, resend_at, created_at, finished_at is not null as finished
                from sign_in_flows where id = $1 and browser_id = $2 and expires_at > $3",
            &[&id.uuid(), &browser.uuid(), &now],
        )
        .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Flow {
        id,
        request: row.try_get::<_, Option<Json<Request>>>("request")?.map(|Json(request)| request),
        email: row.try_get("email")?,
        otp_id: row.try_get::<_, Option<Uuid>>("otp_id")?.map(Into::into),
        resend_at: row.try_get("resend_at")?,
        created_at: row.try_get("created_at")?,
        finished: row.try_get("finished")?,
    }))
}

/// Remembers whom a code was sent to.
pub async fn mark_sent(
    db: &Connection,
    id: FlowId,
    email: &str,
    otp_id: OtpId,
    resend_at: Timestamp,
) -> Result<(), Error> {
    db.execute(
        r"update sign_in_flows set email = $2, otp_id = $3, resend_at = $4 where id = $1",
        &[&id.uuid(), &email, &otp_id.uuid(), &resend_at],
    )
    .await
    .map(drop)
}

/// Finishes a flow; `false`: it was finished before.
pub async fn mark_finished(db: &Connection, id: FlowId, now: Timestamp) -> Result<bool, Error> {
    let sql = r"update sign_in_flows set finished_at = $2 where id = $1 and finished_at is null";
    Ok(db.execute(sql, &[&id.uuid(), &now]).await? == 1)
}

pub async fn delete_expired(db: &Connection, batch: super::Batch) -> Result<u64, Error> {
    db.execute(
        r"delete from sign_in_flows where id in
              (select id from sign_in_flows where expires_at <= $1 limit $2 for update skip locked)",
        &[&batch.now, &batch.size],
    )
    .await
}
