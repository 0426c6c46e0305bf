//! Signs a user in again by a recovery code, in place of a passkey.
//!
//! A code is worth as much as a passkey, but only in a browser in which the user has just entered an email code: an attacker needs
//! the mailbox and the paper. It opens a new sign-in, which is a recent one, and stops a removal of all passkeys. Each use is
//! mailed, and a code works once.
//!
//! Wrong codes are counted, and too many are told to wait. A right one is never refused for that: no attacker can guess it, and one
//! in the mailbox must not keep the owner from using one.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    ids::{Id as _, UserId},
};
use service_rules::{
    Timestamp, lifetimes,
    limits::{Limited, Window},
    recovery_codes::RecoveryCode,
    signing::later,
    step_up::{self as rules, StepUp},
};

use crate::{
    app::App,
    database::{self, Connection},
    flows::{
        Actor, RequestMeta,
        rate_limit::Limit,
        recovery_codes,
        sign_in::{
            browser_session::{Browser, SignInWithoutConnection},
            passkey_recovery,
            request_otp::BROWSER,
            step_up,
        },
    },
    mail::Email,
    store::{self, sign_in_flows::SignInFlow},
};

/// Wrong codes after which a user is told to wait.
const WRONG_CODES: [Window; 1] = [Window { count: 10, seconds: 3_600 }];

/// Why a recovery code did not sign a user in.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryCodeError {
    /// No user has signed in with this browser by code in the last 15 minutes.
    #[error("the user has to sign in by code first")]
    NotSignedIn,
    #[error("the user has no such code")]
    NotAccepted,
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// What the sign-in page offers to a user who needs a passkey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryCodeOffer {
    /// The user needs none, or has none.
    Nothing,
    /// A code works after a sign-in by email code.
    AfterEmailCode,
    /// A code works now.
    Now,
}

/// Decides what the sign-in page offers to the user of this browser.
pub async fn offer(app: &App, browser: &Browser, flow: &SignInFlow) -> Result<RecoveryCodeOffer, database::Error> {
    let person = browser.person.as_ref().map(|person| person.user_id);
    let Some(user_id) = flow.waiting.map(|waiting| waiting.user_id).or(person) else {
        return Ok(RecoveryCodeOffer::Nothing);
    };
    let (db, now) = (app.database.connect().await?, app.clock.now());
    let left = store::recovery_codes::find(&db, user_id).await?.map_or(0, |left| left.count);
    if left == 0 || !stands_in(app, &db, flow, user_id).await? {
        return Ok(RecoveryCodeOffer::Nothing);
    }
    let is_ready = user_by_code(browser, flow, now).is_some();
    Ok(if is_ready { RecoveryCodeOffer::Now } else { RecoveryCodeOffer::AfterEmailCode })
}

/// Whether a recovery code of the user is worth something here: the user waits for a required passkey, or one counts.
async fn stands_in(app: &App, db: &Connection, flow: &SignInFlow, user_id: UserId) -> Result<bool, database::Error> {
    let is_required = flow.waiting.is_some() && step_up::requires_passkey(app, db, user_id).await?;
    Ok(is_required || step_up::of_user(app, db, user_id, app.clock.now()).await? == StepUp::NoCode)
}

/// The user who has just entered an email code in this browser.
fn user_by_code(browser: &Browser, flow: &SignInFlow, now: Timestamp) -> Option<UserId> {
    let Some(waiting) = flow.waiting else {
        return browser.person.as_ref().filter(|_| has_signed_in_by_code(browser, now)).map(|person| person.user_id);
    };
    rules::is_recent(Some(waiting.entered_at), now).then_some(waiting.user_id)
}

/// Whether the user signed in by email code. Only such a sign-in has no `auth_time`, where a passkey counts.
fn has_signed_in_by_code(browser: &Browser, now: Timestamp) -> bool {
    let by_code = browser.person.as_ref().is_some_and(|person| person.auth_time.is_none());
    by_code && browser.signed_in_here_since(later(now, -lifetimes::RECENT_SIGN_IN))
}

/// Signs this browser in again, if the code is right.
pub async fn sign_in(
    app: &App,
    meta: &RequestMeta,
    browser: &mut Browser,
    flow: &SignInFlow,
    code: &str,
) -> Result<(), RecoveryCodeError> {
    app.revocations.check()?;
    let now = app.clock.now();
    let user_id = user_by_code(browser, flow, now).ok_or(RecoveryCodeError::NotSignedIn)?;
    let used = match RecoveryCode::fold(code) {
        Some(code) => UsedCode { app, meta, flow, user_id, code }.sign_in(browser).await?,
        None => false,
    };
    if used {
        return Ok(());
    }
    Err(count_wrong(app, user_id, now).await?.map_or(RecoveryCodeError::NotAccepted, Into::into))
}

/// A code that was entered.
struct UsedCode<'a> {
    app: &'a App,
    meta: &'a RequestMeta,
    flow: &'a SignInFlow,
    user_id: UserId,
    code: RecoveryCode,
}

impl UsedCode<'_> {
    /// Uses the code and signs the browser in; `false`: the user has no such code.
    async fn sign_in(&self, browser: &mut Browser) -> Result<bool, RecoveryCodeError> {
        let Self { app, meta, flow, user_id, ref code } = *self;
        let now = app.clock.now();
        let db = app.database.begin().await?;
        let held = match (flow.waiting, Actor::in_browser(browser, meta)) {
            (Some(_), _) => {
                store::users::lock(&db, user_id).await?
                    && store::sign_in_flows::lock_waiting(&db, flow.id, user_id).await?
            }
            (None, Some(actor)) => actor.hold_session(&db).await?,
            (None, None) => false,
        };
        if !held {
            return Err(RecoveryCodeError::NotSignedIn);
        }
        let user = store::users::find(&db, user_id).await?.ok_or(RecoveryCodeError::NotSignedIn)?;
        if !stands_in(app, &db, flow, user_id).await? {
            return Ok(false);
        }
        let digest = recovery_codes::digest(user_id, code);
        let Some(left) = store::recovery_codes::consume(&db, user_id, &digest).await? else { return Ok(false) };
        passkey_recovery::stop_of(app, meta, &db, user_id).await?;
        let details = json!({ "by": browser.id.to_string(), "left": left });
        let event = meta.event(EventName::RecoveryCodeUsed, now, details)?;
        event.user(user_id).client(BROWSER).insert(&db).await?;
        let signed_in = SignInWithoutConnection { user_id, auth_time: Some(now) };
        browser.sign_in(app, meta, &db, signed_in).await?;
        let mail = Email::RecoveryCodeUsed { to: user.email, left, at: now, from: meta.address.to_string() };
        mail.enqueue(&app.root_keys, &db, now, later(now, lifetimes::WARNING)).await?;
        db.commit().await?;
        app.metrics.account.recovery_codes_used.inc();
        app.mail_waiting.notify_one();
        Ok(true)
    }
}

/// Counts a wrong code. `Some`: there were too many.
async fn count_wrong(app: &App, user_id: UserId, now: Timestamp) -> Result<Option<Limited>, database::Error> {
    let db = app.database.begin().await?;
    let whom = user_id.uuid();
    let limit = Limit { policy: "recovery-codes", whom: whom.as_bytes() };
    let limited = limit.take_in_windows(app, &db, &WRONG_CODES, now).await?;
    db.commit().await?;
    Ok(limited)
}
