//! Notifies the owner when a credential of this service is found in submitted content.
//!
//! The content is rejected and the credential stays valid: it is as secret as before, unless others saw it on the way, and
//! its owner can judge that.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    ids::UserId,
    token::{BrowserSession, CliToken, DeviceSecret, PresentedToken, Token},
};
use service_rules::{Timestamp, cli_tokens, lifetimes, limits::Rate, signing::later};

use crate::{
    app::App,
    flows::{
        RequestMeta, authenticate,
        oauth::revoke,
        rate_limit::Limit,
        sign_in::{browser_session, devices},
    },
    mail::{self, Email},
    store::{self, browser_sessions::CookieKey},
};

/// The rate of emails about one credential, so that a caller who sends it again and again does not fill a mailbox.
const MAX_EMAIL_RATE: Rate = Rate { burst: 1, per_hour: 1 };

/// A valid credential, and its owner.
struct ExposedCredential {
    user_id: UserId,
    to: String,
    /// What an email calls it.
    what: String,
    subject: String,
}

/// Sends an email to the owner of a credential, if it is valid.
pub async fn tell_owner(app: &App, meta: &RequestMeta, token: &PresentedToken) -> anyhow::Result<()> {
    let now = app.clock.now();
    let Some(live) = find(app, token, now).await? else { return Ok(()) };
    let db = app.database.begin().await?;
    let limit = Limit { policy: "credential-letters", whom: live.subject.as_bytes() };
    if limit.take_at_rate(app, &db, MAX_EMAIL_RATE, now).await?.is_some() {
        return Ok(());
    }
    let mut event = meta.event(EventName::TokenExposed, now, json!({}))?;
    event.user_id = Some(live.user_id);
    // The owner reads this event, and the network address is the sender's.
    event.address = None;
    event.subject = Some(live.subject);
    store::audit_events::insert(&db, &event).await?;
    let mail = Email::TokenExposed { to: live.to, what: live.what, sent_at: now };
    mail.enqueue(&app.root_keys, &db, now, later(now, lifetimes::WARNING)).await?;
    db.commit().await?;
    app.mail_waiting.notify_one();
    Ok(())
}

async fn find(app: &App, token: &PresentedToken, now: Timestamp) -> anyhow::Result<Option<ExposedCredential>> {
    if let Some(token) = CliToken::parse(token.expose()) {
        return find_cli_token(app, &token, now).await;
    }
    if let Some(session) = Token::<BrowserSession>::parse(token.expose()) {
        let db = app.database.connect().await?;
        let key = CookieKey::of(&session);
        let found = store::browser_sessions::find(&db, &key, browser_session::idle_since(now), now).await?;
        let live = found.and_then(|found| Some((found.id, found.person?)));
        return Ok(live.map(|(id, person)| ExposedCredential {
            user_id: person.user_id,
            to: person.email,
            what: mail::things(&app.locales).browser_cookie(),
            subject: id.to_string(),
        }));
    }
    if let Some(secret) = DeviceSecret::parse(token.expose()) {
        return find_device(app, &secret, now).await;
    }
    let Some(given) = revoke::find_grant(app, token, now).await? else { return Ok(None) };
    let grant = given.grant;
    if grant.facts.ended.is_some() || grant.facts.user_disabled || grant.facts.expires_at <= now {
        return Ok(None);
    }
    let what = mail::things(&app.locales).session(&grant.client.id);
    Ok(Some(ExposedCredential { user_id: grant.user_id, to: grant.user_email, what, subject: grant.id.to_string() }))
}

/// The device of a user. If several users signed in there, the first.
async fn find_device(app: &App, secret: &DeviceSecret, now: Timestamp) -> anyhow::Result<Option<ExposedCredential>> {
    let db = app.database.connect().await?;
    let Some(user_id) = devices::find_users(&db, secret, now).await?.into_iter().next() else { return Ok(None) };
    let user = store::users::find(&db, user_id).await?;
    let to = user.ok_or_else(|| anyhow::anyhow!("a device belongs to a user who does not exist"))?.email;
    let what = mail::things(&app.locales).device_secret(&secret.hint());
    Ok(Some(ExposedCredential { user_id, to, what, subject: format!("device {user_id}") }))
}

async fn find_cli_token(app: &App, token: &CliToken, now: Timestamp) -> anyhow::Result<Option<ExposedCredential>> {
    let Some(stored) = authenticate::find_genuine_cli_token(app, token, now).await? else { return Ok(None) };
    if cli_tokens::judge(&stored.found, now).is_err() {
        return Ok(None);
    }
    let user = store::users::find(&app.database.connect().await?, stored.user_id).await?;
    let to = user.ok_or_else(|| anyhow::anyhow!("a token speaks for a user who does not exist"))?.email;
    let what = mail::things(&app.locales).cli_token(stored.name.as_str(), &token.hint());
    Ok(Some(ExposedCredential { user_id: stored.user_id, to, what, subject: stored.id.to_string() }))
}
