//! Creates a user's recovery codes. `sign_in/recovery_code.rs` says what one is worth.
//!
//! Only a user whose passkey counts creates codes, soon after a sign-in by it, by single sign-on, or by another recovery code. So an
//! attacker with a phished email code gets none. The codes are shown once; the service keeps digests.

use std::array;

use serde_json::json;
use service_api::{audit_events::EventName, ids::Id as _};
use service_rules::{
    lifetimes,
    recovery_codes::{RECOVERY_CODE_BYTES, RECOVERY_CODES, RecoveryCode},
    signing::later,
    step_up::StepUp,
};

use crate::{
    app::App,
    crypto::random,
    flows::{
        RequestMeta,
        account::{AccountError, actor, passkeys::PasskeyRefusal},
        passkeys, recovery_codes,
        sign_in::{browser_session::Browser, step_up},
    },
    mail::Email,
    store::{self, recovery_codes::NewRecoveryCodes},
};

/// Creates codes in place of those that the user has; returns them.
pub async fn create(
    app: &App,
    meta: &RequestMeta,
    browser: &Browser,
) -> Result<[RecoveryCode; RECOVERY_CODES], AccountError> {
    let actor = actor(browser, meta)?;
    step_up::require_recent_sign_in(app, &actor).await?;
    let (user_id, now) = (actor.user_id, app.clock.now());
    let db = app.database.begin().await?;
    let held = actor.hold(&db, now).await?.ok_or(AccountError::NotSignedIn)?;
    // At the time of the sign-in: later, a code that was enough then would count for a passkey that counts now.
    if step_up::of_user(app, &db, user_id, held.auth_time).await? != StepUp::NoCode {
        return Err(PasskeyRefusal::NoneCounts.into());
    }
    if let Some(limited) = actor.count(app, &db, now).await? {
        return Err(PasskeyRefusal::from(limited).into());
    }
    let codes = draw()?;
    let id = random::id_in(user_id.shard(), now)?;
    let digests = codes.each_ref().map(|code| recovery_codes::digest(user_id, code));
    let new = NewRecoveryCodes { id, user_id, digests: &digests, made_by: &held.made_by, now };
    store::recovery_codes::replace(&db, &new).await?;
    let event = actor.event(EventName::RecoveryCodesCreated, now, json!({ "madeBy": held.made_by }))?;
    event.subject(id).insert(&db).await?;
    let mail = Email::RecoveryCodesCreated {
        to: passkeys::find_email(&db, user_id).await?,
        at: now,
        from: meta.address.to_string(),
        language: meta.language,
    };
    mail.enqueue(&app.root_keys, &db, now, later(now, lifetimes::WARNING)).await?;
    db.commit().await?;
    app.mail_waiting.notify_one();
    Ok(codes)
}

fn draw() -> anyhow::Result<[RecoveryCode; RECOVERY_CODES]> {
    let random = random::bytes::<{ RECOVERY_CODES * RECOVERY_CODE_BYTES }>()?;
    let (codes, _) = random.as_chunks();
    Ok(array::from_fn(|place| RecoveryCode::new(codes[place])))
}
