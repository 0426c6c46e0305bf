//! Keeping an account that its user had closed.
//!
//! The page behind the link only shows it, because mail systems open links, too; its form opens the account again. What was revoked
//! stays revoked, and the link authenticates no user: it works once, until erasing begins, and does nothing else.

use serde_json::json;
use service_api::{audit_events::EventName, ids::UserId, token::Token};
use service_rules::{Timestamp, lifetimes, signing::later};

use crate::{
    app::App,
    database::{self, Connection},
    flows::RequestMeta,
    mail::Email,
    store::{self, account_deletions::KeepKey, audit_events::NewAuditEvent},
};

/// Why a link does not keep an account.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    #[error("the link was used, or the account is erased")]
    NotFound,
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// Finds when the account of a link is erased.
pub async fn find(app: &App, secret: &str) -> Result<Timestamp, KeepError> {
    let db = app.database.connect().await?;
    let found = store::account_deletions::find_by_link(&db, &parse(secret)?).await?;
    found.map(|(_, due_at)| due_at).ok_or(KeepError::NotFound)
}

/// Opens the account of a link again.
pub async fn keep(app: &App, meta: &RequestMeta, secret: &str) -> Result<(), KeepError> {
    let (key, now) = (parse(secret)?, app.clock.now());
    let db = app.database.begin().await?;
    let (user_id, _) = store::account_deletions::find_by_link(&db, &key).await?.ok_or(KeepError::NotFound)?;
    store::users::lock(&db, user_id).await?;
    if !store::account_deletions::delete_by_link(&db, &key).await? {
        return Err(KeepError::NotFound);
    }
    let event = meta.event(EventName::AccountKept, now, json!({}))?.user(user_id);
    open_again(app, &db, user_id, event, now).await?;
    db.commit().await?;
    app.metrics.account.deletions_stopped.inc();
    app.mail_waiting.notify_one();
    Ok(())
}

/// Opens an account whose erasure was stopped in this transaction, and tells its user. The user is locked.
pub(in crate::flows) async fn open_again(
    app: &App,
    db: &Connection,
    user_id: UserId,
    event: NewAuditEvent<'_>,
    now: Timestamp,
) -> anyhow::Result<()> {
    store::users::mark_disabled(db, user_id, None).await?;
    event.insert(db).await?;
    if let Some(user) = store::users::find(db, user_id).await? {
        let mail = Email::AccountKept { to: user.email, at: now };
        mail.enqueue(&app.root_keys, db, now, later(now, lifetimes::WARNING)).await?;
    }
    Ok(())
}

fn parse(secret: &str) -> Result<KeepKey, KeepError> {
    Ok(KeepKey::of(&Token::parse(secret).ok_or(KeepError::NotFound)?))
}
