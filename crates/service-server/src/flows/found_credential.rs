//! A credential that was sent as content. It was not kept; whose it is is told, if it still works.
//!
//! Nothing is ended: it is as secret as it was before, unless others saw it on the way, and its owner knows best.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    ids::UserId,
    token::{CliToken, PresentedToken, Session, Token},
};
use service_rules::{Timestamp, cli_tokens, lifetimes, limits::Rate, signing::later};

use crate::{
    app::App,
    digest::sha256,
    flows::{Asker, authenticate, browser, limit::Limit, revoke},
    letters::{self, Letter},
    store,
};

/// Letters about one credential: whoever sends it a thousand times does not fill a mailbox.
const LETTERS: Rate = Rate { burst: 1, per_hour: 1 };

/// A credential that works, and whose it is.
struct Live {
    user_id: UserId,
    to: String,
    /// What it is called in a letter.
    what: String,
    subject: String,
}

pub async fn tell_owner(app: &App, asker: &Asker, token: &PresentedToken) -> anyhow::Result<()> {
    let now = app.clock.now();
    let Some(live) = find(app, token, now).await? else { return Ok(()) };
    let db = app.database.begin().await?;
    let limit = Limit { policy: "credential-letters", whom: live.subject.as_bytes() };
    if limit.take_at_rate(app, &db, LETTERS, now).await?.is_some() {
        return Ok(());
    }
    let mut event = asker.event(EventName::TokenExposed, now, json!({}))?;
    event.user_id = Some(live.user_id);
    event.subject = Some(live.subject);
    store::audit_events::insert(&db, &event).await?;
    let letter = Letter::TokenExposed { to: live.to, what: live.what, sent_at: now };
    letter.post(&app.vault, &db, now, later(now, lifetimes::WARNING)).await?;
    db.commit().await?;
    app.mail_waiting.notify_one();
    Ok(())
}

async fn find(app: &App, token: &PresentedToken, now: Timestamp) -> anyhow::Result<Option<Live>> {
    if let Some(token) = CliToken::parse(token.expose()) {
        return find_cli_token(app, &token, now).await;
    }
    if let Some(session) = Token::<Session>::parse(token.expose()) {
        let db = app.database.connect().await?;
        let found =
            store::browser_sessions::find(&db, &sha256(session.expose()), browser::idle_since(now), now).await?;
        let live = found.and_then(|found| Some((found.id, found.person?)));
        return Ok(live.map(|(id, person)| Live {
            user_id: person.user_id,
            to: person.email,
            what: "the cookie of a browser that is signed in".into(),
            subject: id.to_string(),
        }));
    }
    let Some(given) = revoke::find(app, token, now).await? else { return Ok(None) };
    let grant = given.grant;
    if grant.facts.ended.is_some() || grant.facts.user_disabled || grant.facts.expires_at <= now {
        return Ok(None);
    }
    let what = format!("a session ({})", letters::spoken(&grant.client.id));
    Ok(Some(Live { user_id: grant.user_id, to: grant.user_email, what, subject: grant.id.to_string() }))
}

async fn find_cli_token(app: &App, token: &CliToken, now: Timestamp) -> anyhow::Result<Option<Live>> {
    let Some(stored) = authenticate::genuine_cli_token(app, token).await? else { return Ok(None) };
    if cli_tokens::judge(&stored.found, now).is_err() {
        return Ok(None);
    }
    let user = store::users::find(&app.database.connect().await?, stored.user_id).await?;
    let to = user.ok_or_else(|| anyhow::anyhow!("a token speaks for a user who does not exist"))?.email;
    let what = format!("the token {} ({})", stored.name, token.hint());
    Ok(Some(Live { user_id: stored.user_id, to, what, subject: stored.id.to_string() }))
}
