//! Signing keys: making the first, letting a new one follow, and retiring one by hand.
//!
//! A new key is published at once and signs only after a lead, when every node and every verifier that caches keys
//! knows it. The key before it stays accepted until the last token it signed has expired. Whoever changes keys holds a
//! lock, so of two nodes that start on an empty database one makes the key.

use std::time::Duration;

use serde_json::json;
use service_api::{audit_events::EventName, errors::Reason};
use service_rules::{
    Timestamp,
    revocation::Subject,
    signing::{self, State, later},
};

use crate::{
    app::App,
    database::Connection,
    flows::end_access::{self, EndingTransaction},
    mint,
    signing_keys::{self, GeneratedKey},
    store::{self, audit_events::Event, signing_keys::StoredKey},
};

/// Why a key was not retired.
#[derive(Debug, PartialEq, Eq)]
pub enum NotRetired {
    Unknown,
    /// It signs, and nothing else could.
    StillNeeded,
}

/// Makes a key that follows the others; it signs after the configured lead, or at once if there is no other.
pub async fn rotate(app: &App) -> anyhow::Result<String> {
    let now = app.clock.now();
    let db = app.database.begin().await?;
    store::signing_keys::lock(&db).await?;
    let kid = follow(app, &db, app.config.keys.publish_lead, now).await?;
    db.commit().await?;
    app.reload_signing_keys().await?;
    Ok(kid)
}

/// Makes the first key of an empty database, and the next one when the youngest is old enough.
pub async fn rotate_if_due(app: &App) -> anyhow::Result<Option<String>> {
    let now = app.clock.now();
    // Nearly always nothing is due, and nobody has to wait for a lock to learn that.
    if !is_due(app, &app.database.connect().await?, now).await? {
        return Ok(None);
    }
    let db = app.database.begin().await?;
    store::signing_keys::lock(&db).await?;
    if !is_due(app, &db, now).await? {
        return Ok(None);
    }
    let kid = follow(app, &db, app.config.keys.publish_lead, now).await?;
    db.commit().await?;
    app.reload_signing_keys().await?;
    Ok(Some(kid))
}

async fn is_due(app: &App, db: &Connection, now: Timestamp) -> anyhow::Result<bool> {
    let keys = store::signing_keys::list(db).await?;
    // A key that is going to retire has been followed; if its successor was retired by hand, it needs another.
    let staying = keys.iter().filter(|key| key.schedule.retired_at.is_none());
    let youngest = staying.map(|key| key.schedule.active_at).max();
    let rotate_every = i64::try_from(app.config.keys.rotate_every.as_secs())?;
    Ok(youngest.is_none_or(|active_at| later(active_at, rotate_every) <= now))
}

/// Refuses from now on everything that a key signed, as after a compromise.
pub async fn retire(app: &App, kid: &str) -> anyhow::Result<Result<(), NotRetired>> {
    let now = app.clock.now();
    let mut transaction = EndingTransaction::begin(app, now).await?;
    store::signing_keys::lock(transaction.db()).await?;
    let keys = store::signing_keys::list(transaction.db()).await?;
    let Some(key) = keys.iter().find(|key| key.kid == kid) else { return Ok(Err(NotRetired::Unknown)) };
    let signs = |key: &StoredKey| key.schedule.active_at <= now;
    let another_stays =
        keys.iter().any(|other| other.kid != kid && signs(other) && other.schedule.retired_at.is_none());
    if signs(key) && !another_stays {
        return Ok(Err(NotRetired::StillNeeded));
    }
    if !store::signing_keys::mark_retired(transaction.db(), kid, now).await? {
        return Ok(Err(NotRetired::Unknown));
    }
    store::audit_events::insert(transaction.db(), &event(EventName::KeyRetired, kid, now)?).await?;
    transaction.end(Subject::SigningKey(kid.to_owned()), Reason::RevokedByAdmin).await?;
    end_access::finish(app, transaction).await?;
    app.reload_signing_keys().await?;
    Ok(Ok(()))
}

/// Every key with its state, youngest first.
pub async fn list(app: &App) -> anyhow::Result<Vec<(StoredKey, State)>> {
    let now = app.clock.now();
    let keys = store::signing_keys::list(&app.database.connect().await?).await?;
    let states: Vec<_> = keys.iter().map(|key| state_of(&keys, key, now)).collect();
    Ok(keys.into_iter().zip(states).collect())
}

async fn follow(app: &App, db: &Connection, lead: Duration, now: Timestamp) -> anyhow::Result<String> {
    let others = store::signing_keys::list(db).await?;
    let live: Vec<_> = others.iter().filter(|key| state_of(&others, key, now) != State::Retired).collect();
    let opened: Vec<_> = live.iter().map(|key| signing_keys::check(&app.vault, key)).collect();
    if opened.iter().all(Result::is_err) {
        // Under other root keys than the others', the new key could be opened by nobody else.
        opened.into_iter().collect::<anyhow::Result<()>>()?;
    }
    let alone = live.is_empty();
    let active_at = if alone { now } else { now.checked_add(lead)? };
    let GeneratedKey { kid, sealed, jwk } = signing_keys::generate(&app.vault)?;
    let schedule = signing::Schedule { active_at, retired_at: None };
    let key = StoredKey { kid: kid.clone(), sealed, jwk, created_at: now, schedule };
    store::signing_keys::insert(db, &key).await?;
    store::signing_keys::mark_followed(db, &key, signing::retire_after(active_at), now).await?;
    store::audit_events::insert(db, &event(EventName::KeyCreated, &kid, now)?).await?;
    Ok(kid)
}

fn state_of(keys: &[StoredKey], key: &StoredKey, now: Timestamp) -> State {
    let younger = keys.iter().filter(|other| other.schedule.active_at > key.schedule.active_at);
    let usable = younger.filter(|other| other.schedule.retired_at.is_none_or(|at| at > now));
    signing::state(key.schedule, usable.map(|other| other.schedule.active_at).min(), now)
}

fn event(name: EventName, kid: &str, now: Timestamp) -> anyhow::Result<Event<'static>> {
    Ok(Event {
        id: mint::id(now)?,
        at: now,
        event: name,
        user_id: None,
        client_id: None,
        workspace_id: None,
        subject: Some(kid.to_owned()),
        address: None,
        request_id: None,
        details: json!({}),
    })
}
