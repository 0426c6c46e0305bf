//! The link in a mail about a new sign-in, for a user who did not sign in.
//!
//! 1. The page behind the link shows the sign-in and what it created. It changes nothing, because mail systems open links, too.
//! 2. The form of the page revokes the session and everything that it created, and deletes the device. If an app of others was
//!    let in, all its sessions are revoked and its consents are withdrawn. If the session closed the account, it is opened again.
//!
//! The link authenticates no user. It does nothing else, works once and expires after 7 days: an attacker who reads the mail can
//! undo the sign-in, and gets no access by it.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    errors::Reason,
    ids::{BrowserSessionId, GrantId, UserId},
    sessions::MadeTreatment,
    token::{SignInReport, Token},
};
use service_rules::{Timestamp, clients::ClientKind, lineage::Event};

use crate::{
    app::App,
    database,
    flows::{
        RequestMeta,
        account::{
            deletion::keep,
            sessions::{self, FoundSession},
        },
        oauth::consents,
        revocation::{
            RevocationTransaction,
            lineage::{Cause, LineageRevocation},
        },
    },
    store::{self, sign_in_reports::ReportKey},
};

/// Why a link is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum SignInReportError {
    #[error("the link was used, has expired or never existed")]
    NotFound,
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// The sign-in that a link is about.
pub struct ReportedSignIn {
    pub at: Timestamp,
    /// `None`: the session has ended. What it created may still work.
    pub session: Option<FoundSession>,
}

/// Finds the sign-in of a link.
pub async fn find(app: &App, secret: &str) -> Result<ReportedSignIn, SignInReportError> {
    let key = parse(secret)?;
    let db = app.database.connect().await?;
    let found = store::sign_in_reports::find(&db, &key, app.clock.now()).await?;
    let found = found.ok_or(SignInReportError::NotFound)?;
    let session = sessions::find_of_user(app, &db, found.user_id, &found.session_id).await?;
    Ok(ReportedSignIn { at: found.created_at, session })
}

/// Revokes the sign-in of a link, with everything that it created.
pub async fn revoke(app: &App, meta: &RequestMeta, secret: &str) -> Result<(), SignInReportError> {
    let key = parse(secret)?;
    let now = app.clock.now();
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    let found = store::sign_in_reports::find(transaction.db(), &key, now).await?;
    let found = found.ok_or(SignInReportError::NotFound)?;
    let user_id = found.user_id;
    store::users::lock(transaction.db(), user_id).await?;
    if !store::sign_in_reports::delete(transaction.db(), &key).await? {
        return Err(SignInReportError::NotFound);
    }
    let event = meta.event(EventName::SignInReported, now, json!({}))?.user(user_id);
    event.subject(&found.session_id).insert(transaction.db()).await?;
    let mut makers = vec![found.session_id.clone()];
    if let Ok(browser) = found.session_id.parse::<BrowserSessionId>() {
        store::browser_sessions::delete_one(transaction.db(), browser, user_id).await?;
    } else if let Ok(id) = found.session_id.parse::<GrantId>()
        && let Some(grant) = store::grants::find(transaction.db(), id).await?
    {
        transaction.revoke_grant(id, Reason::RevokedByUser).await?;
        if grant.client.kind != ClientKind::FirstParty {
            // The mail was about the app's access, and the app may have opened more sessions since.
            let ids = store::client_grants::list_ids(transaction.db(), user_id, &grant.client.id).await?;
            transaction.revoke_grants(user_id, &ids, Reason::RevokedByUser).await?;
            makers.extend(ids.into_iter().map(|id| GrantId::from(id).to_string()));
            consents::withdraw_if_last(transaction.db(), meta, user_id, &grant.client, now).await?;
        }
    }
    let sessions = with_descendants(&transaction, user_id, &makers).await?;
    if store::account_deletions::delete_of_sessions(transaction.db(), user_id, &sessions).await? {
        let event = meta.event(EventName::AccountKept, now, json!({}))?.user(user_id);
        keep::open_again(app, transaction.db(), user_id, event, now).await?;
    }
    let event = Event::RevokedByUser(MadeTreatment::Revoke);
    let lineage = LineageRevocation { cause: Cause::Request(meta), user_id, event };
    lineage.revoke(&mut transaction, makers).await?;
    if let Some(device) = found.device {
        store::devices::delete_one(transaction.db(), user_id, &device).await?;
    }
    transaction.commit().await?;
    app.metrics.account.sign_ins_reported.inc();
    app.mail_waiting.notify_one();
    Ok(())
}

/// These sessions, and those that they created and that have ended: all have, if one of them closed the account.
async fn with_descendants(
    transaction: &RevocationTransaction<'_>,
    user_id: UserId,
    makers: &[String],
) -> Result<Vec<String>, database::Error> {
    let (mut all, mut newest) = (makers.to_vec(), makers.to_vec());
    while !newest.is_empty() {
        let made = store::lineage::list_ended(transaction.db(), user_id, &newest, transaction.now()).await?;
        newest = made.iter().map(GrantId::to_string).filter(|id| !all.contains(id)).collect();
        all.extend(newest.iter().cloned());
    }
    Ok(all)
}

fn parse(secret: &str) -> Result<ReportKey, SignInReportError> {
    Ok(ReportKey::of(&Token::<SignInReport>::parse(secret).ok_or(SignInReportError::NotFound)?))
}
