//! Signing keys: creating the first, rotating to a new one, and retiring one by hand.
//!
//! A new key is published at once and signs only after a lead, when every node and every verifier that caches keys
//! knows it. The key before it stays accepted until the last token it signed has expired. A transaction that changes keys
//! locks the table, so of two nodes that start on an empty database one creates the key.

use std::time::Duration;

use serde_json::json;
use service_api::{audit_events::EventName, errors::Reason};
use service_rules::{
    Timestamp,
    revocation::Subject,
    signing::{self, KeyState, later},
};

use crate::{
    app::App,
    database::{self, Connection},
    flows::{
        check_clock, node_event,
        revocation::{self, RevocationTransaction},
    },
    store::{self, signing_keys::StoredSigningKey},
    tokens::signing_keys::{self, GeneratedKey},
};

/// Why a key was not retired.
#[derive(Debug, thiserror::Error)]
pub enum RetireKeyError {
    #[error("there is no such signing key that is not retired")]
    Unknown,
    #[error("the signing key is the only one that signs")]
    StillNeeded,
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// Creates the successor of the current key. It signs after the configured lead, or at once if there is no other.
pub async fn rotate(app: &App) -> anyhow::Result<String> {
    let now = app.clock.now();
    let db = app.background_database.begin().await?;
    check_clock(app, &db, now).await?;
    store::signing_keys::lock(&db).await?;
    let kid = follow(app, &db, app.config.keys.publish_lead, now).await?;
    db.commit().await?;
    authenticate_again(app).await?;
    app.reload_signing_keys().await?;
    Ok(kid)
}

/// Creates the first key of an empty database, and the next one when the newest is old enough.
pub async fn rotate_if_due(app: &App) -> anyhow::Result<Option<String>> {
    let now = app.clock.now();
    // Nearly always nothing is due, and that is known without a lock.
    if !is_due(app, &app.background_database.connect().await?, now).await? {
        return Ok(None);
    }
    let db = app.background_database.begin().await?;
    check_clock(app, &db, now).await?;
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
    let keys = list_authentic(app, db).await?;
    // A key that is going to retire has a successor. If that was retired by hand, it needs another.
    let staying = keys.iter().filter(|key| key.schedule.retired_at.is_none());
    let youngest = staying.map(|key| key.schedule.active_at).max();
    let rotate_every = i64::try_from(app.config.keys.rotate_every.as_secs())?;
    Ok(youngest.is_none_or(|active_at| later(active_at, rotate_every) <= now))
}

/// Retires a key, as after a compromise: every token that it signed is refused from now on.
pub async fn retire(app: &App, kid: &str) -> Result<(), RetireKeyError> {
    let now = app.clock.now();
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    store::signing_keys::lock(transaction.db()).await?;
    let mut keys = list_authentic(app, transaction.db()).await?;
    let place = keys.iter().position(|key| key.kid == kid).ok_or(RetireKeyError::Unknown)?;
    let signs = |key: &StoredSigningKey| key.schedule.active_at <= now;
    let another_stays =
        keys.iter().any(|other| other.kid != kid && signs(other) && other.schedule.retired_at.is_none());
    let key = &mut keys[place];
    if signs(key) && !another_stays {
        return Err(RetireKeyError::StillNeeded);
    }
    if key.retired_by_hand {
        return Err(RetireKeyError::Unknown);
    }
    // An attacker who reads the row later finds no private key.
    key.sealed.clear();
    key.retired_by_hand = true;
    key.schedule.retired_at = Some(key.schedule.retired_at.map_or(now, |at| at.min(now)));
    write(app, transaction.db(), key).await?;
    node_event(EventName::KeyRetired, now, json!({}))?.subject(kid).insert(transaction.db()).await?;
    transaction.revoke(Subject::SigningKey(kid.to_owned()), Reason::RevokedByAdmin)?;
    revocation::finish(app, transaction).await?;
    app.reload_signing_keys().await?;
    Ok(())
}

/// Lists every key with its state, the newest first.
pub async fn list(app: &App) -> anyhow::Result<Vec<(StoredSigningKey, KeyState)>> {
    let now = app.clock.now();
    let keys = list_authentic(app, &app.background_database.connect().await?).await?;
    let states: Vec<_> = keys.iter().map(|key| state_of(&keys, key, now)).collect();
    Ok(keys.into_iter().zip(states).collect())
}

async fn follow(app: &App, db: &Connection, lead: Duration, now: Timestamp) -> anyhow::Result<String> {
    let mut others = list_authentic(app, db).await?;
    let live: Vec<_> = others.iter().filter(|key| state_of(&others, key, now) != KeyState::Retired).collect();
    let opened: Vec<_> = live.iter().map(|key| signing_keys::check(&app.root_keys, key)).collect();
    if opened.iter().all(Result::is_err) {
        // This node's root keys differ from those of the others, which could not open the new key.
        opened.into_iter().collect::<anyhow::Result<()>>()?;
    }
    let alone = live.is_empty();
    let active_at = if alone { now } else { now.checked_add(lead)? };
    let GeneratedKey { kid, sealed, jwk } = signing_keys::generate(&app.root_keys)?;
    let schedule = signing::Schedule { active_at, retired_at: None };
    let mut key = StoredSigningKey {
        kid: kid.clone(),
        sealed,
        jwk,
        created_at: now,
        schedule,
        retired_by_hand: false,
        version: 1,
        mac_key: 0,
        mac: Vec::new(),
    };
    signing_keys::authenticate(&app.root_keys, &mut key);
    store::signing_keys::insert(db, &key).await?;
    for other in others.iter_mut().filter(|other| other.schedule.retired_at.is_none()) {
        // A key that would become active after its successor never signs.
        let never_signs = other.schedule.active_at >= active_at;
        other.schedule.retired_at = Some(if never_signs { now } else { signing::retire_after(active_at) });
        write(app, db, other).await?;
    }
    node_event(EventName::KeyCreated, now, json!({}))?.subject(&kid).insert(db).await?;
    Ok(kid)
}

/// The keys whose rows bear the MAC of this service. If there are rows and none does, this node's root keys are wrong, or an
/// attacker wrote to the table. A new first key would then sign all users out, so that is an error.
async fn list_authentic(app: &App, db: &Connection) -> anyhow::Result<Vec<StoredSigningKey>> {
    let stored = store::signing_keys::list(db).await?;
    let (authentic, strange): (Vec<_>, Vec<_>) =
        stored.into_iter().partition(|key| signing_keys::is_authentic(&app.root_keys, key));
    if let (true, Some(key)) = (authentic.is_empty(), strange.first()) {
        signing_keys::check(&app.root_keys, key)?;
        anyhow::bail!("no row of signing_keys has a valid MAC, so this service did not write them");
    }
    Ok(authentic)
}

/// Writes a key that was read under the lock, with the next version and a new MAC.
async fn write(app: &App, db: &Connection, key: &mut StoredSigningKey) -> anyhow::Result<()> {
    let read_version = key.version;
    key.version += 1;
    signing_keys::authenticate(&app.root_keys, key);
    anyhow::ensure!(
        store::signing_keys::update(db, key, read_version).await?,
        "the key was changed in spite of the lock"
    );
    Ok(())
}

/// Erases the private keys of signing keys that were retired before this, whatever root key sealed them; returns how many.
pub async fn erase_private_keys(app: &App, retired_before: Timestamp) -> anyhow::Result<u64> {
    let is_over = |key: &StoredSigningKey| {
        !key.sealed.is_empty()
            && key.schedule.retired_at.is_some_and(|at| at <= retired_before)
            && signing_keys::is_authentic(&app.root_keys, key)
    };
    if !store::signing_keys::list(&app.background_database.connect().await?).await?.iter().any(is_over) {
        return Ok(0);
    }
    let db = app.background_database.begin().await?;
    store::signing_keys::lock(&db).await?;
    let mut erased = 0;
    for mut key in store::signing_keys::list(&db).await?.into_iter().filter(is_over) {
        key.sealed.clear();
        write(app, &db, &mut key).await?;
        erased += 1;
    }
    db.commit().await?;
    Ok(erased)
}

/// Renews the MAC of rows under the root key in use, so that former root keys can be removed.
pub async fn authenticate_again(app: &App) -> anyhow::Result<()> {
    let is_old = |key: &StoredSigningKey| {
        key.mac_key != app.root_keys.key_in_use() && signing_keys::is_authentic(&app.root_keys, key)
    };
    if !store::signing_keys::list(&app.background_database.connect().await?).await?.iter().any(is_old) {
        return Ok(());
    }
    let db = app.background_database.begin().await?;
    store::signing_keys::lock(&db).await?;
    for mut key in store::signing_keys::list(&db).await?.into_iter().filter(is_old) {
        write(app, &db, &mut key).await?;
    }
    Ok(db.commit().await?)
}

fn state_of(keys: &[StoredSigningKey], key: &StoredSigningKey, now: Timestamp) -> KeyState {
    let younger = keys.iter().filter(|other| other.schedule.active_at > key.schedule.active_at);
    let usable = younger.filter(|other| other.schedule.retired_at.is_none_or(|at| at > now));
    signing::state(key.schedule, usable.map(|other| other.schedule.active_at).min(), now)
}
