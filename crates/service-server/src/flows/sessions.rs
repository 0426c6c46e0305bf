//! The sessions of a user, and revoking them (`/v1/sessions`).

use serde_json::json;
use service_api::{
    audit_events::EventName,
    errors::Reason,
    ids::{BrowserSessionId, GrantId, Id as _, UserId},
    page::Page,
    sessions::{MadeTreatment, OthersEnded, SessionPage, SignedInBrowser},
};
use service_rules::{Timestamp, lineage::Event, rotation};

use crate::{
    app::App,
    database,
    flows::{
        Actor,
        actor::Basis,
        oauth::consents,
        revocation::{
            RevocationTransaction,
            lineage::{Cause, LineageRevocation},
        },
        sign_in::browser_session,
    },
    pagination::{InvalidCursor, List, PageRequest},
    store::{
        self,
        browser_sessions::BrowserSessionQuery,
        grants::{GrantQuery, GrantSelection},
    },
};

/// Why sessions were not listed or revoked.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("the user has no such session")]
    NotFound,
    #[error(transparent)]
    InvalidCursor(#[from] InvalidCursor),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// The most browsers that the list has. Older ones are on the account page.
const MAX_LISTED_BROWSERS: i64 = 100;

/// Lists the user's live sessions, the newest first, and on the first page the browsers that the user is signed in with.
pub async fn list(app: &App, actor: &Actor<'_>, page: PageRequest<'_>) -> Result<SessionPage, SessionError> {
    let now = app.clock.now();
    let owner = actor.user_id.to_string();
    let list = List { root_keys: &app.root_keys, of: &[b"sessions", owner.as_bytes()], limit: page.limit };
    let before = list.behind(page.cursor)?.map(GrantId::from);
    let listed = GrantQuery { now, used_after: rotation::idle_since(now), before, limit: list.rows() };
    let db = app.database.connect().await?;
    let mut data = store::grants::list_by_user(&db, actor.user_id, &listed).await?;
    for session in &mut data {
        session.current = actor.basis == Basis::Session(session.id);
        app.config.brand.rename(&mut session.client);
    }
    let browsers = if before.is_none() { list_browsers(&db, actor.user_id, now).await? } else { Vec::new() };
    let Page { data, next_cursor } = list.page(data, |session| session.id.uuid());
    Ok(SessionPage { data, browsers, next_cursor })
}

/// Lists the browsers that a user is signed in with.
pub(crate) async fn list_browsers(
    db: &database::Connection,
    user_id: UserId,
    now: Timestamp,
) -> Result<Vec<SignedInBrowser>, database::Error> {
    let seen_since = browser_session::idle_since(now);
    let query = BrowserSessionQuery { now, seen_since, before: None, limit: MAX_LISTED_BROWSERS };
    let browsers = store::browser_sessions::list_by_user(db, user_id, &query).await?;
    let listed = browsers.into_iter().map(|browser| SignedInBrowser {
        id: browser.id,
        signed_in_at: browser.signed_in_at,
        last_used_at: browser.last_seen_at,
    });
    Ok(listed.collect())
}

/// Revokes a session of the user, or signs a browser of the user out. Revoking a session again changes nothing. What the session
/// made is treated as the request says.
pub async fn revoke(app: &App, actor: &Actor<'_>, id: &str, made: MadeTreatment) -> Result<(), SessionError> {
    let now = app.clock.now();
    let user_id = actor.user_id;
    if let Ok(browser) = id.parse::<BrowserSessionId>() {
        return sign_out_browser(app, actor, browser, made).await;
    }
    let id: GrantId = id.parse().map_err(|_| SessionError::NotFound)?;
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    store::users::lock(transaction.db(), user_id).await?;
    let grant = store::grants::find(transaction.db(), id).await?;
    let grant = grant.filter(|grant| grant.user_id == user_id).ok_or(SessionError::NotFound)?;
    if transaction.revoke_grant(id, Reason::RevokedByUser).await? {
        let event = actor.user_event(EventName::SessionEnded, now, json!({ "by": actor.basis.to_string() }))?;
        event.subject(id).insert(transaction.db()).await?;
        let lineage =
            LineageRevocation { cause: Cause::Request(actor.meta), user_id, event: Event::RevokedByUser(made) };
        lineage.revoke(&mut transaction, vec![id.to_string()]).await?;
        consents::withdraw_if_last(transaction.db(), actor.meta, user_id, &grant.client, now).await?;
    }
    Ok(transaction.commit().await?)
}

async fn sign_out_browser(
    app: &App,
    actor: &Actor<'_>,
    id: BrowserSessionId,
    made: MadeTreatment,
) -> Result<(), SessionError> {
    let now = app.clock.now();
    let user_id = actor.user_id;
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    store::users::lock(transaction.db(), user_id).await?;
    if !store::browser_sessions::delete_one(transaction.db(), id, user_id).await? {
        return Err(SessionError::NotFound);
    }
    let event = actor.user_event(EventName::SessionEnded, now, json!({ "by": actor.basis.to_string() }))?;
    event.subject(id).insert(transaction.db()).await?;
    let lineage = LineageRevocation { cause: Cause::Request(actor.meta), user_id, event: Event::RevokedByUser(made) };
    lineage.revoke(&mut transaction, vec![id.to_string()]).await?;
    Ok(transaction.commit().await?)
}

/// Revokes every session of the user except `current`. What they made is treated as the request says.
pub async fn revoke_others(
    app: &App,
    actor: &Actor<'_>,
    current: GrantId,
    made: MadeTreatment,
) -> Result<OthersEnded, SessionError> {
    let now = app.clock.now();
    let user_id = actor.user_id;
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    // A concurrent sign-in commits before this lock is taken, or starts after this transaction.
    store::users::lock(transaction.db(), user_id).await?;
    let others =
        transaction.revoke_grants_of_user(user_id, GrantSelection::Except(current), Reason::RevokedByUser).await?;
    let lineage = LineageRevocation { cause: Cause::Request(actor.meta), user_id, event: Event::RevokedByUser(made) };
    let browsers = store::browser_sessions::delete_by_user(transaction.db(), user_id, None).await?;
    let makers = others.iter().map(ToString::to_string).chain(browsers.iter().map(ToString::to_string));
    lineage.revoke(&mut transaction, makers.collect()).await?;
    let consents =
        store::consents::delete_without_sessions(transaction.db(), user_id, now, rotation::idle_since(now)).await?;
    if !others.is_empty() || !browsers.is_empty() {
        let details = json!({ "by": current, "ended": others.len(), "browsers": browsers.len(), "consents": consents });
        actor.user_event(EventName::SessionOthersEnded, now, details)?.insert(transaction.db()).await?;
    }
    transaction.commit().await?;
    Ok(OthersEnded { ended: others.len() as u64, browsers: browsers.len() as u64 })
}
