//! The keys of the personal fields of audit events: opening the fields for their readers, and deleting the keys.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{Span, civil::Date};
use service_api::{
    audit_events::AuditEvent,
    ids::{Id as _, UserId},
};
use service_rules::{Timestamp, lifetimes, signing::later};
use uuid::Uuid;

use crate::{
    app::App,
    audit::keys::{AuditKey, AuditKeys},
    database::{Connection, Error},
    store::{self, audit_events::StoredAuditEvent, audit_keys::ResealedUserKey},
};

/// Keys of users that one statement seals again.
const USER_KEYS_PER_BATCH: i64 = 1_000;
/// Batches that one call seals again.
const MAX_BATCHES_PER_CALL: usize = 100;

/// Opens the personal fields of events. If the key of an address was deleted, its network stays; if the key of details was
/// deleted, they are left out.
pub async fn open(app: &App, db: &Connection, stored: Vec<StoredAuditEvent>) -> Result<Vec<AuditEvent>, Error> {
    let days = days(app, db, &stored).await?;
    let users = users(app, db, &stored).await?;
    Ok(stored.into_iter().map(|stored| open_one(stored, &days, &users)).collect())
}

fn open_one(
    stored: StoredAuditEvent,
    days: &BTreeMap<Date, Arc<AuditKey>>,
    users: &BTreeMap<Uuid, AuditKey>,
) -> AuditEvent {
    let mut event = stored.event;
    // An event whose network was taken out, because its reader may not see it, does not get its address back.
    let network_is_shown = event.address.is_some();
    if let (true, Some(sealed), Some(key)) =
        (network_is_shown, &stored.sealed_address, days.get(&AuditKeys::day_of(event.at)))
    {
        match key.open_address(event.id, sealed) {
            Ok(address) => event.address = Some(address.to_string()),
            Err(error) => tracing::warn!(event = %event.id, error = format!("{error:#}"), "Could not open an address"),
        }
    }
    let user = event.user_id.and_then(|user_id| users.get(&user_id.uuid()));
    if let (Some(sealed), Some(key)) = (&stored.sealed_details, user) {
        match key.open_details(event.id, sealed) {
            Ok(details) => event.details.extend(details),
            Err(error) => tracing::warn!(event = %event.id, error = format!("{error:#}"), "Could not open details"),
        }
    }
    event
}

async fn days(app: &App, db: &Connection, stored: &[StoredAuditEvent]) -> Result<BTreeMap<Date, Arc<AuditKey>>, Error> {
    let sealed = stored.iter().filter(|stored| stored.sealed_address.is_some());
    let wanted: BTreeSet<_> = sealed.map(|stored| AuditKeys::day_of(stored.event.at)).collect();
    let mut days: BTreeMap<_, _> =
        wanted.iter().filter_map(|day| Some((*day, app.audit_keys.cached_day(*day)?))).collect();
    let missing: Vec<_> = wanted.into_iter().filter(|day| !days.contains_key(day)).collect();
    if !missing.is_empty() {
        for (day, sealed) in store::audit_keys::list_days(db, &missing).await? {
            match app.audit_keys.open_day(day, &sealed) {
                Ok(key) => drop(days.insert(day, Arc::new(key))),
                Err(error) => tracing::warn!(%day, error = format!("{error:#}"), "Could not open the key of a day"),
            }
        }
    }
    Ok(days)
}

async fn users(app: &App, db: &Connection, stored: &[StoredAuditEvent]) -> Result<BTreeMap<Uuid, AuditKey>, Error> {
    let sealed = stored.iter().filter(|stored| stored.sealed_details.is_some());
    let wanted: BTreeSet<Uuid> = sealed.filter_map(|stored| Some(stored.event.user_id?.uuid())).collect();
    let mut users = BTreeMap::new();
    if wanted.is_empty() {
        return Ok(users);
    }
    let wanted: Vec<UserId> = wanted.into_iter().map(Into::into).collect();
    for (user_id, sealed) in store::audit_keys::list_users(db, &wanted).await? {
        match app.audit_keys.open_user(user_id, &sealed) {
            Ok(key) => drop(users.insert(user_id.uuid(), key)),
            Err(error) => tracing::warn!(%user_id, error = format!("{error:#}"), "Could not open the key of a user"),
        }
    }
    Ok(users)
}

/// Creates the keys of today and tomorrow ahead of time, so that no request has to, and loads the stored keys into this
/// node's cache. A key that was lost in a failover is written again from the cache.
pub async fn prepare(app: &App, now: Timestamp) -> anyhow::Result<()> {
    let today = AuditKeys::day_of(now);
    let days = [today, today.checked_add(Span::new().days(1))?];
    let db = app.database.connect().await?;
    let mut stored = store::audit_keys::list_days(&db, &days).await?;
    if stored.len() < days.len() {
        for day in days.into_iter().filter(|day| stored.iter().all(|(stored, _)| stored != day)) {
            let key = match app.audit_keys.cached_day(day) {
                Some(key) => key,
                None => AuditKey::generate()?.into(),
            };
            store::audit_keys::insert_day(&db, day, &app.audit_keys.seal_day(day, &key)?).await?;
        }
        // Another node may have been faster; its keys are used then.
        stored = store::audit_keys::list_days(&db, &days).await?;
    }
    for (day, sealed) in stored {
        let key: Arc<AuditKey> = match app.audit_keys.open_day(day, &sealed) {
            Ok(key) => key.into(),
            Err(error) => {
                tracing::error!(%day, error = format!("{error:#}"), "The key of a day cannot be opened; a new one takes its place");
                replace_lost(app, &db, day, &sealed).await?
            }
        };
        app.audit_keys.cache_day(day, key);
    }
    seal_days_again(app, &db).await?;
    drop(db);
    seal_users_again(app).await
}

/// Replaces the key of a day whose root key is gone, so that events can be recorded. The network addresses that were sealed
/// under it can never be read again.
async fn replace_lost(app: &App, db: &Connection, day: Date, old: &[u8]) -> anyhow::Result<Arc<AuditKey>> {
    let key = AuditKey::generate()?;
    store::audit_keys::replace_day(db, day, old, &app.audit_keys.seal_day(day, &key)?).await?;
    // Another node may have been faster; its key is used then.
    let stored = store::audit_keys::list_days(db, &[day]).await?;
    let (_, sealed) = stored.first().ok_or_else(|| anyhow::anyhow!("the key of a day is gone"))?;
    Ok(app.audit_keys.open_day(day, sealed)?.into())
}

/// Seals keys of days again that are sealed under a root key that is no longer in use, so that it can be removed.
async fn seal_days_again(app: &App, db: &Connection) -> anyhow::Result<()> {
    for (day, sealed) in store::audit_keys::list_all_days(db).await? {
        if app.audit_keys.is_outdated(&sealed)
            && let Ok(key) = app.audit_keys.open_day(day, &sealed)
        {
            let anew = app.audit_keys.seal_day(day, &key)?;
            store::audit_keys::replace_day(db, day, &sealed, &anew).await?;
        }
    }
    Ok(())
}

/// Seals keys of users again that are sealed under a root key that is no longer in use. There may be very many, so they are
/// sealed in batches, a limited number in each call; the next call continues.
async fn seal_users_again(app: &App) -> anyhow::Result<()> {
    let outdated = app.audit_keys.outdated();
    if outdated.is_empty() {
        return Ok(());
    }
    let (mut after, mut total) = (UserId::from(Uuid::nil()), 0);
    for _ in 0..MAX_BATCHES_PER_CALL {
        // Each batch has a deadline of its own.
        let db = app.background_database.connect().await?;
        let found = store::audit_keys::list_users_under(&db, &outdated, after, USER_KEYS_PER_BATCH).await?;
        let Some((last, _)) = found.last() else { break };
        after = *last;
        let mut again = Vec::with_capacity(found.len());
        for (user_id, old) in found {
            // One that does not open is passed over: it opens under no other key either.
            match app.audit_keys.open_user(user_id, &old) {
                Ok(key) => {
                    let sealed = app.audit_keys.seal_user(user_id, &key)?;
                    again.push(ResealedUserKey { user_id, old, sealed });
                }
                Err(error) => {
                    tracing::warn!(%user_id, error = format!("{error:#}"), "Could not open the key of a user");
                }
            }
        }
        total += store::audit_keys::replace_users(&db, &again).await?;
    }
    if total > 0 {
        tracing::info!(users = total, "Sealed keys of audit events again under the root key in use");
    }
    Ok(())
}

/// Deletes the keys of days that ended longer ago than network addresses are kept; returns how many.
pub async fn delete_old_days(app: &App, now: Timestamp) -> anyhow::Result<u64> {
    let kept_since = AuditKeys::day_of(later(now, -lifetimes::NETWORK_ADDRESS_KEPT));
    app.audit_keys.forget_days_before(kept_since);
    Ok(store::audit_keys::delete_days_before(&app.database.connect().await?, kept_since).await?)
}

/// Deletes the key of a user, in the transaction that erases the account. Email addresses and names in the user's audit
/// events can then never be read again.
pub async fn erase_user(db: &Connection, user_id: UserId) -> Result<bool, Error> {
    store::audit_keys::delete_user(db, user_id).await
}
