//! Recovery: a user who has lost every passkey signs in by code and removes them all, after a day.
//!
//! 1. The user begins it on the account page, soon after a sign-in, or, where the user requires a passkey, on the sign-in page soon after
//!    the code. A mail says so.
//! 2. Every session of the user can stop it until then, and so does a sign-in by a passkey that counts. An attacker
//!    who reads the mailbox can begin a recovery, but not hide it from a user who still has a passkey.
//! 3. When it is due, a background task removes the passkeys from before it in one transaction, and another mail says so. A user
//!    who is left without a passkey no longer requires one.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    ids::{Id as _, PasskeyId, UserId},
};
use service_rules::{
    Timestamp, lifetimes,
    limits::{Limited, Window},
    signing::later,
    step_up,
};

use crate::{
    app::App,
    database::{self, Connection, restore_fence::Fence},
    flows::{
        RequestMeta,
        account::passkey_requirement,
        node_event,
        rate_limit::Limit,
        recovery_codes::{self, RemovedBy},
        sign_in::browser_session::Browser,
    },
    mail::Email,
    store::{self, Batch, sign_in_flows::SignInFlow},
};

/// Recoveries that a user can begin. Each one sends a mail.
const BEGINNINGS: [Window; 1] = [Window { count: 3, seconds: 86_400 }];
/// Recoveries that are ended before the list is read again.
const RECOVERIES_PER_READ: i64 = 100;

/// Why a recovery was not begun or stopped.
#[derive(Debug, thiserror::Error)]
pub enum PasskeyRecoveryError {
    #[error("no user is signed in with this browser")]
    NotSignedIn,
    #[error("the user has to sign in again")]
    SignInTooOld,
    #[error("the user has no passkey, or a recovery is under way, or none is")]
    NothingToDo,
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// Begins a recovery. The sign-in must be recent, but a code is enough: the user has nothing else.
pub async fn begin(app: &App, meta: &RequestMeta, browser: &Browser) -> Result<(), PasskeyRecoveryError> {
    let person = browser.person.as_ref().ok_or(PasskeyRecoveryError::NotSignedIn)?;
    let (user_id, now) = (person.user_id, app.clock.now());
    if !step_up::is_recent(Some(person.signed_in_at), now) {
        return Err(PasskeyRecoveryError::SignInTooOld);
    }
    let db = app.database.begin().await?;
    hold(&db, browser, user_id).await?;
    if store::passkeys::count_by_user(&db, user_id).await? == 0 {
        return Err(PasskeyRecoveryError::NothingToDo);
    }
    store_recovery(app, meta, db, user_id, browser.id.to_string()).await
}

/// Begins a recovery for the user who entered the right code in a flow, and requires a passkey. Also one who has none left: then
/// only the requirement ends.
pub async fn begin_waiting(app: &App, meta: &RequestMeta, flow: &SignInFlow) -> Result<(), PasskeyRecoveryError> {
    let waiting = flow.waiting.ok_or(PasskeyRecoveryError::NotSignedIn)?;
    if !step_up::is_recent(Some(waiting.entered_at), app.clock.now()) {
        return Err(PasskeyRecoveryError::SignInTooOld);
    }
    let (db, user_id) = (app.database.begin().await?, waiting.user_id);
    let held =
        store::users::lock(&db, user_id).await? && store::sign_in_flows::lock_waiting(&db, flow.id, user_id).await?;
    if !held {
        return Err(PasskeyRecoveryError::NotSignedIn);
    }
    store_recovery(app, meta, db, user_id, flow.id.to_string()).await
}

/// Stores a recovery and commits. The user is locked.
async fn store_recovery(
    app: &App,
    meta: &RequestMeta,
    db: Connection,
    user_id: UserId,
    by: String,
) -> Result<(), PasskeyRecoveryError> {
    let now = app.clock.now();
    let due_at = later(now, lifetimes::PASSKEY_RECOVERY);
    if !store::passkey_recoveries::insert(&db, user_id, now, due_at).await? {
        return Err(PasskeyRecoveryError::NothingToDo);
    }
    let user = store::users::find(&db, user_id).await?.ok_or(PasskeyRecoveryError::NotSignedIn)?;
    let whom = user_id.uuid();
    let limit = Limit { policy: "passkey-recoveries", whom: whom.as_bytes() };
    if let Some(limited) = limit.take_in_windows(app, &db, &BEGINNINGS, now).await? {
        return Err(limited.into());
    }
    let details = json!({ "by": by });
    meta.event(EventName::PasskeyRecoveryBegun, now, details)?.user(user_id).insert(&db).await?;
    let mail = Email::PasskeyRecoveryBegun { to: user.email, at: now, from: meta.address.to_string(), due_at };
    mail.enqueue(&app.root_keys, &db, now, later(now, lifetimes::WARNING)).await?;
    db.commit().await?;
    app.mail_waiting.notify_one();
    Ok(())
}

/// Stops the recovery of the user who is signed in, however long ago.
pub async fn stop(app: &App, meta: &RequestMeta, browser: &Browser) -> Result<(), PasskeyRecoveryError> {
    let person = browser.person.as_ref().ok_or(PasskeyRecoveryError::NotSignedIn)?;
    let db = app.database.begin().await?;
    hold(&db, browser, person.user_id).await?;
    if !stop_of(app, meta, &db, person.user_id).await? {
        return Err(PasskeyRecoveryError::NothingToDo);
    }
    db.commit().await?;
    app.mail_waiting.notify_one();
    Ok(())
}

/// Stops a recovery, if one is under way, because its user has just used a passkey.
pub(crate) async fn stop_by_passkey(
    app: &App,
    meta: &RequestMeta,
    db: &Connection,
    user_id: UserId,
    counts_from: Option<Timestamp>,
) -> anyhow::Result<()> {
    if counts_from.is_some_and(|from| from <= app.clock.now()) {
        stop_of(app, meta, db, user_id).await?;
    }
    Ok(())
}

/// Stops a recovery, and tells the user: an attacker with a session could stop that of the owner. `false`: none is under way.
pub(crate) async fn stop_of(app: &App, meta: &RequestMeta, db: &Connection, user_id: UserId) -> anyhow::Result<bool> {
    let now = app.clock.now();
    if !store::passkey_recoveries::delete(db, user_id).await? {
        return Ok(false);
    }
    meta.event(EventName::PasskeyRecoveryStopped, now, json!({}))?.user(user_id).insert(db).await?;
    if let Some(user) = store::users::find(db, user_id).await? {
        let mail = Email::PasskeyRecoveryStopped { to: user.email, at: now, from: meta.address.to_string() };
        mail.enqueue(&app.root_keys, db, now, later(now, lifetimes::WARNING)).await?;
    }
    Ok(true)
}

/// Holds the user and the browser as they are until the transaction ends.
async fn hold(db: &Connection, browser: &Browser, user_id: UserId) -> Result<(), PasskeyRecoveryError> {
    let held = store::users::lock(db, user_id).await?
        && store::browser_sessions::lock_signed_in(db, browser.id, user_id).await?.is_some();
    if held { Ok(()) } else { Err(PasskeyRecoveryError::NotSignedIn) }
}

/// Removes the passkeys of users whose recovery is due; returns how many users these are. One that fails does not stop the
/// others, and is tried again.
pub async fn end_due(app: &App) -> anyhow::Result<u64> {
    if app.fence() != Fence::Open {
        // The database looks restored: a request to stop a recovery may be lost.
        return Ok(0);
    }
    let db = app.background_database.connect().await?;
    let (database_time, now) = (store::database_time(&db).await?, app.clock.now());
    anyhow::ensure!(!app.clock.is_off(now, database_time), "this node's clock differs from the database's");
    let due = store::passkey_recoveries::list_due(&db, Batch { now, size: RECOVERIES_PER_READ }).await?;
    drop(db);
    let (mut ended, mut failure) = (0, None);
    for user_id in due {
        match end(app, user_id, now).await {
            Ok(has_ended) => ended += u64::from(has_ended),
            Err(error) => {
                failure.get_or_insert(error);
            }
        }
    }
    failure.map_or(Ok(ended), Err)
}

/// Removes all passkeys of a user; `false`: the recovery was stopped, or another node ended it.
async fn end(app: &App, user_id: UserId, now: Timestamp) -> anyhow::Result<bool> {
    let db = app.background_database.begin().await?;
    store::users::lock(&db, user_id).await?;
    let Some(begun_at) = store::passkey_recoveries::delete_due(&db, user_id, now).await? else { return Ok(false) };
    // The user may have added one since.
    let mut passkeys = store::passkeys::list_by_user(&db, user_id).await?;
    passkeys.retain(|passkey| passkey.created_at <= begun_at);
    let ids: Vec<_> = passkeys.iter().map(|passkey| passkey.id.uuid()).collect();
    store::passkeys::delete_several(&db, user_id, &ids).await?;
    recovery_codes::remove_without_passkey(app, RemovedBy::Task, &db, user_id).await?;
    passkey_requirement::end_without_passkey(app, RemovedBy::Task, &db, user_id).await?;
    for id in ids {
        let event = node_event(EventName::PasskeyRemoved, now, json!({ "by": "recovery" }))?;
        event.user(user_id).subject(PasskeyId::from(id)).insert(&db).await?;
    }
    if let Some(user) = store::users::find(&db, user_id).await?
        && !passkeys.is_empty()
    {
        let removed = passkeys.into_iter().map(|passkey| passkey.name).collect();
        let mail = Email::PasskeyRecoveryEnded { to: user.email, removed };
        mail.enqueue(&app.root_keys, &db, now, later(now, lifetimes::WARNING)).await?;
    }
    db.commit().await?;
    app.mail_waiting.notify_one();
    Ok(true)
}
