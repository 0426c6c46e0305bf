//! Securing an account after a theft: everything but the session in use is revoked at once.
//!
//! 1. The user signed in within the last 15 minutes, by a passkey if one counts. The user and the session are locked.
//! 2. In one transaction: sessions, MCP tokens, CLI tokens, browsers, consents, invitations and devices, codes that wait to be
//!    entered, links that revoke a sign-in, passkeys that do not stay, and the removal of all passkeys and a change of the address if
//!    someone asked for them.
//! 3. The browser of the request gets a new cookie and a new device secret: an attacker may have copies of the old ones.
//! 4. A mail says so, if there was anything to revoke.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    cli_tokens::{ListedCliToken, Status},
    consents::Consent,
    errors::Reason,
    ids::{Id as _, PasskeyId, UserId},
    secure_account::{SecureAccount, SecuredAccount},
    token::DeviceSecret,
};
use service_rules::{Timestamp, email::Address, lifetimes, limits::Window, lineage::Consequence, signing::later};

use crate::{
    app::App,
    database::{self, Connection},
    flows::{
        Actor, RequestMeta,
        account::{
            AccountError, actor, address_change, apps, passkey_requirement,
            sessions::{self, Sessions},
            signed_in, tokens,
        },
        actor::Basis,
        oauth::consents,
        rate_limit::Limit,
        recovery_codes::{self, RemovedBy},
        revocation::RevocationTransaction,
        sign_in::{
            browser_session::Browser,
            devices,
            email_key::email_key,
            passkey_recovery,
            step_up::{self, RecentSignIn},
        },
    },
    mail::Email,
    store::{self, grants::GrantSelection, passkeys::ListedPasskey},
};

/// Mails of this kind that a user gets in a day.
const MAILS: [Window; 1] = [Window { count: 5, seconds: 86_400 }];

/// Why an account was not secured.
#[derive(Debug, thiserror::Error)]
pub enum SecureError {
    #[error("the session ended while the request ran")]
    SessionEnded,
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// What will be revoked, as far as one page shows it.
pub struct RevocableThings {
    pub sessions: Sessions,
    pub tokens: Vec<ListedCliToken>,
    pub apps: Vec<Consent>,
    /// How many invitations are pending.
    pub invitations: i64,
    /// The passkeys, and whether each one stays unless the user says otherwise.
    pub passkeys: Vec<(ListedPasskey, bool)>,
}

pub async fn list(app: &App, browser: &Browser) -> Result<RevocableThings, AccountError> {
    let user_id = signed_in(browser)?.user_id;
    let now = app.clock.now();
    let mut tokens = tokens::list(app, browser, None).await?.tokens.data;
    tokens.retain(|token| token.status == Status::Active);
    let sessions = sessions::list(app, browser, sessions::Only::Everything, None).await?;
    let apps = apps::list(app, browser, None).await?.consents.data;
    let db = app.database.connect().await?;
    let passkeys = store::passkeys::list_by_user(&db, user_id).await?;
    let passkeys = passkeys.into_iter().map(|passkey| {
        let stays = stays(&passkey, None, now);
        (passkey, stays)
    });
    let passkeys = passkeys.collect();
    let invitations = store::sent_invitations::count(&db, user_id, now).await?;
    Ok(RevocableThings { sessions, tokens, apps, invitations, passkeys })
}

/// Secures the account of the user who is signed in with a browser. The browser gets a new cookie and a new device secret.
pub async fn secure_from_browser(
    app: &App,
    meta: &RequestMeta,
    browser: &mut Browser,
    request: &SecureAccount,
) -> Result<SecuredAccount, AccountError> {
    let actor = actor(browser, meta)?;
    let sign_in = step_up::require_recent_sign_in(app, &actor).await?;
    let mut transaction = RevocationTransaction::begin(app, app.clock.now()).await?;
    let secured = revoke(app, &mut transaction, &actor, sign_in, request).await?;
    browser.renew(app, transaction.db(), Some(actor.user_id)).await?;
    let device = remember_device(app, transaction.db(), actor.user_id).await?;
    commit(app, transaction).await?;
    browser.remember_device(device, None);
    Ok(secured)
}

/// Stores a new device for the browser of the request.
async fn remember_device(app: &App, db: &Connection, user_id: UserId) -> Result<Option<DeviceSecret>, SecureError> {
    let Some(address) = store::users::find_address(db, user_id).await? else { return Ok(None) };
    let now = app.clock.now();
    let signed_in = devices::SignedIn { user_id, address: &address, presented: None, asked_by: None, now };
    Ok(devices::remember(app, db, &signed_in).await?.secret)
}

/// Revokes everything of a user but the session of a token.
pub async fn secure(
    app: &App,
    actor: &Actor<'_>,
    sign_in: RecentSignIn,
    request: &SecureAccount,
) -> Result<SecuredAccount, SecureError> {
    let mut transaction = RevocationTransaction::begin(app, app.clock.now()).await?;
    let secured = revoke(app, &mut transaction, actor, sign_in, request).await?;
    commit(app, transaction).await?;
    Ok(secured)
}

async fn commit(app: &App, transaction: RevocationTransaction<'_>) -> Result<(), SecureError> {
    transaction.commit().await?;
    app.metrics.account.secured.inc();
    app.mail_waiting.notify_one();
    Ok(())
}

/// Revokes everything of a user but the session in use, and tells the user.
async fn revoke(
    app: &App,
    transaction: &mut RevocationTransaction<'_>,
    actor: &Actor<'_>,
    _: RecentSignIn,
    request: &SecureAccount,
) -> Result<SecuredAccount, SecureError> {
    let (user_id, now) = (actor.user_id, transaction.now());
    actor.hold(transaction.db(), now).await?.ok_or(SecureError::SessionEnded)?;
    let (grants, browser) = match actor.basis {
        Basis::Session(id) => (GrantSelection::Except(id), None),
        Basis::Browser { id, .. } => (GrantSelection::All, Some(id)),
        Basis::CliToken(_) | Basis::Operator => return Err(SecureError::SessionEnded),
    };
    let live = count_live(app, transaction.db(), user_id, now).await?;
    let sessions = transaction.revoke_grants_of_user(user_id, grants, Reason::RevokedByUser).await?;
    let tokens = store::cli_tokens::list_ids(transaction.db(), user_id).await?;
    transaction.revoke_cli_tokens(user_id, &tokens, Reason::RevokedByUser).await?;
    let db = transaction.db();
    let browsers = store::browser_sessions::delete_by_user(db, user_id, browser).await?;
    store::consents::delete_by_user(db, user_id).await?;
    store::invitations::delete_by_inviter(db, user_id).await?;
    let passkeys = remove_passkeys(db, actor, request.keep_passkeys.as_deref(), now).await?;
    let change_stopped = address_change::stop_of(app, actor.meta, db, user_id).await?;
    let recovery_stopped = passkey_recovery::stop_of(app, actor.meta, db, user_id).await?;
    store::devices::delete_by_user(db, user_id, None).await?;
    store::sign_in_reports::delete_by_user(db, user_id).await?;
    store::account_exports::delete_by_user(db, user_id).await?;
    let address = store::users::find_address(db, user_id).await?.ok_or(SecureError::SessionEnded)?;
    store::otps::delete_by_address(db, email_key(app, db, &address).await?).await?;
    let by = RemovedBy::Request(actor.meta);
    let codes_removed = recovery_codes::remove(app, by, db, user_id).await?;
    passkey_requirement::end_without_passkey(app, by, db, user_id).await?;
    let secured = SecuredAccount {
        sessions: sessions.len() as u64,
        browsers: browsers.len() as u64,
        passkeys: passkeys.len() as u64,
        ..live
    };
    if secured.is_empty() && !recovery_stopped && !change_stopped && !codes_removed {
        return Ok(secured);
    }
    let details = json!({ "by": actor.basis.to_string(), "revoked": secured });
    actor.user_event(EventName::AccountSecured, now, details)?.insert(db).await?;
    enqueue_mail(app, actor, db, &address, passkeys).await?;
    Ok(secured)
}

/// Counts what is live of that which is deleted without a look at it.
async fn count_live(
    app: &App,
    db: &Connection,
    user_id: UserId,
    now: Timestamp,
) -> Result<SecuredAccount, SecureError> {
    let count = |counted: i64| u64::try_from(counted).unwrap_or_default();
    Ok(SecuredAccount {
        cli_tokens: count(store::cli_tokens::count_live(db, user_id, app.revocations.epoch()?, now).await?),
        apps: count(store::consents::count_by_user(db, user_id, consents::counting_at(now)).await?),
        invitations: count(store::sent_invitations::count(db, user_id, now).await?),
        ..SecuredAccount::default()
    })
}

/// Removes the passkeys that do not stay; returns their names.
async fn remove_passkeys(
    db: &Connection,
    actor: &Actor<'_>,
    keep: Option<&[PasskeyId]>,
    now: Timestamp,
) -> Result<Vec<String>, SecureError> {
    let mut removed = store::passkeys::list_by_user(db, actor.user_id).await?;
    removed.retain(|passkey| !stays(passkey, keep, now));
    for passkey in &removed {
        store::passkeys::delete(db, actor.user_id, passkey.id).await?;
        let details = json!({ "by": actor.basis.to_string() });
        actor.user_event(EventName::PasskeyRemoved, now, details)?.subject(passkey.id).insert(db).await?;
    }
    Ok(removed.into_iter().map(|passkey| passkey.name).collect())
}

/// Whether a passkey stays: the user recognizes it, or was not asked and it is not new.
#[must_use]
pub fn stays(passkey: &ListedPasskey, keep: Option<&[PasskeyId]>, now: Timestamp) -> bool {
    match keep {
        Some(keep) => keep.contains(&passkey.id),
        None => !Consequence::RevokedIfNew.revokes(passkey.created_at, None, now),
    }
}

/// Tells the user, because an attacker may have done it. The limit is on mails only: nothing keeps a user from securing the account.
async fn enqueue_mail(
    app: &App,
    actor: &Actor<'_>,
    db: &Connection,
    address: &Address,
    passkeys: Vec<String>,
) -> Result<(), SecureError> {
    let now = app.clock.now();
    let whom = actor.user_id.uuid();
    let limit = Limit { policy: "account-secured-mails", whom: whom.as_bytes() };
    if limit.take_in_windows(app, db, &MAILS, now).await?.is_some() {
        return Ok(());
    }
    let (to, from) = (address.as_str().to_owned(), actor.meta.address.to_string());
    let mail = Email::AccountSecured { to, at: now, from, passkeys };
    Ok(mail.enqueue(&app.root_keys, db, now, later(now, lifetimes::WARNING)).await?)
}
