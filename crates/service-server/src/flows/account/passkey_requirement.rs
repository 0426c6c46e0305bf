//! Requiring a passkey to sign in, so that a code from the mailbox alone opens no session.
//!
//! 1. The user signed in within the last 15 minutes, by a passkey that counts or a recovery code. Where single sign-on is required,
//!    passkeys do not sign in, so they cannot be required.
//! 2. The user is signed out everywhere else, because another session may have begun with a code. What such a session may have asked for
//!    is stopped: removing all passkeys, and changing the address. CLI tokens stay.
//! 3. From then on a code opens no session (`sign_in/verify_otp.rs`). In a browser the flow of the sign-in remembers its user, who is not
//!    signed in: the page asks for the passkey or for a recovery code, and all passkeys can be removed after 24 hours
//!    (`sign_in/passkey_recovery.rs`).
//! 4. The requirement ends when the user says so, with as recent a sign-in, when the user removes the last passkey, or with such a
//!    recovery. It does not end when something else removes the last passkey, such as the link in a mail.

use serde_json::json;
use service_api::{
    account::Account,
    audit_events::EventName,
    errors::Reason,
    ids::{Id as _, UserId},
};
use service_rules::{
    Timestamp, lifetimes,
    limits::{Limited, Window},
    rotation,
    signing::later,
};

use crate::{
    app::App,
    database::{self, Connection},
    flows::{
        Actor, RequestMeta,
        account::{AccountError, actor, address_change},
        actor::Basis,
        rate_limit::Limit,
        recovery_codes::RemovedBy,
        revocation::RevocationTransaction,
        sign_in::{
            browser_session::Browser,
            passkey_recovery,
            step_up::{self, RecentSignIn},
        },
        sso::required,
        tokens::issuer::Held,
    },
    mail::Email,
    store::{self, grants::GrantSelection},
};

/// Changes of a user that one day allows. Each one sends a mail.
const CHANGES: [Window; 1] = [Window { count: 10, seconds: 86_400 }];

/// Why the requirement was not changed.
#[derive(Debug, thiserror::Error)]
pub enum PasskeyRequirementError {
    #[error("the session ended while the request ran")]
    SessionEnded,
    #[error("no passkey of the user counts")]
    NoneCounts,
    #[error("single sign-on is required")]
    SsoRequired,
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// Requires a passkey from the user who is signed in with a browser, or no longer does.
pub async fn set_from_browser(
    app: &App,
    meta: &RequestMeta,
    browser: &Browser,
    required: bool,
) -> Result<(), AccountError> {
    let actor = actor(browser, meta)?;
    let sign_in = step_up::require_recent_sign_in(app, &actor).await?;
    Ok(set(app, &actor, sign_in, required).await.map(drop)?)
}

/// Requires a passkey from the user, or no longer does. If nothing changes, no one is signed out and no mail is sent.
pub async fn set(
    app: &App,
    actor: &Actor<'_>,
    _: RecentSignIn,
    required: bool,
) -> Result<Account, PasskeyRequirementError> {
    let (user_id, now) = (actor.user_id, app.clock.now());
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    let held = actor.hold(transaction.db(), now).await?.ok_or(PasskeyRequirementError::SessionEnded)?;
    if required {
        check_passkey(app, transaction.db(), user_id, &held).await?;
    }
    if store::users::update_passkey_requirement(transaction.db(), user_id, required).await? {
        let whom = user_id.uuid();
        let limit = Limit { policy: "passkey-requirements", whom: whom.as_bytes() };
        if let Some(limited) = limit.take_in_windows(app, transaction.db(), &CHANGES, now).await? {
            return Err(limited.into());
        }
        let mut details = json!({ "by": actor.basis.to_string() });
        let event = if required {
            let (sessions, browsers) = sign_out_others(&mut transaction, actor, now).await?;
            (details["ended"], details["browsers"]) = (sessions.into(), browsers.into());
            EventName::PasskeyRequired
        } else {
            EventName::PasskeyNotRequired
        };
        actor.user_event(event, now, details)?.insert(transaction.db()).await?;
        tell(app, transaction.db(), user_id, required, actor.meta.address.to_string()).await?;
    }
    let user = store::users::find(transaction.db(), user_id).await?.ok_or(PasskeyRequirementError::SessionEnded)?;
    transaction.commit().await?;
    app.mail_waiting.notify_one();
    Ok(user.account(user_id))
}

/// Checks that the user signed in by a passkey or a recovery code, so that they can again.
async fn check_passkey(
    app: &App,
    db: &Connection,
    user_id: UserId,
    held: &Held,
) -> Result<(), PasskeyRequirementError> {
    if required::applies_to(app, db, user_id).await? {
        return Err(PasskeyRequirementError::SsoRequired);
    }
    // While a passkey counts, no sign-in by code has a time.
    let counted = store::passkeys::count_now(db, user_id, held.auth_time).await?;
    if counted && held.connection_id.is_none() { Ok(()) } else { Err(PasskeyRequirementError::NoneCounts) }
}

/// Signs the user out everywhere but in the session in use. Returns how many sessions and browsers these are.
async fn sign_out_others(
    transaction: &mut RevocationTransaction<'_>,
    actor: &Actor<'_>,
    now: Timestamp,
) -> Result<(usize, usize), PasskeyRequirementError> {
    let user_id = actor.user_id;
    let (grants, browser) = match actor.basis {
        Basis::Session(id) => (GrantSelection::Except(id), None),
        Basis::Browser { id, .. } => (GrantSelection::All, Some(id)),
        Basis::CliToken(_) | Basis::Operator => return Err(PasskeyRequirementError::SessionEnded),
    };
    let sessions = transaction.revoke_grants_of_user(user_id, grants, Reason::RevokedByUser).await?;
    let browsers = store::browser_sessions::delete_by_user(transaction.db(), user_id, browser).await?;
    store::consents::delete_without_sessions(transaction.db(), user_id, now, rotation::idle_since(now)).await?;
    let (app, db) = (transaction.app(), transaction.db());
    passkey_recovery::stop_of(app, actor.meta, db, user_id).await?;
    address_change::stop_of(app, actor.meta, db, user_id).await?;
    Ok((sessions.len(), browsers.len()))
}

/// Ends the requirement of a user who has no passkey left. Call it when the user removed the passkeys or a recovery did, and not when a
/// link in a mail did: otherwise an attacker who reads the mailbox could end the requirement.
pub(in crate::flows) async fn end_without_passkey(
    app: &App,
    by: RemovedBy<'_>,
    db: &Connection,
    user_id: UserId,
) -> anyhow::Result<()> {
    if store::passkeys::count_by_user(db, user_id).await? > 0
        || !store::users::update_passkey_requirement(db, user_id, false).await?
    {
        return Ok(());
    }
    by.event(EventName::PasskeyNotRequired, app.clock.now())?.user(user_id).insert(db).await?;
    tell(app, db, user_id, false, by.address()).await
}

/// Tells the user, because an attacker may have done it.
async fn tell(app: &App, db: &Connection, user_id: UserId, required: bool, from: String) -> anyhow::Result<()> {
    let Some(user) = store::users::find(db, user_id).await? else { return Ok(()) };
    let now = app.clock.now();
    let mail = Email::PasskeyRequirementChanged { to: user.email, required, at: now, from };
    mail.enqueue(&app.root_keys, db, now, later(now, lifetimes::WARNING)).await
}
