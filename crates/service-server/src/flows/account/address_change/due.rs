//! Changing the addresses that are due.
//!
//! 1. The user is locked. A change that was stopped or replaced meanwhile is gone.
//! 2. The new address is assigned to the user, unless another account has it by now, or single sign-on is required in one of the
//!    domains by now. Then the address stays, and the user is told.
//! 3. Codes of both addresses are deleted: one that was sent to the former address must not sign in to another account. Devices are
//!    forgotten, and identities at a company whose domain the user leaves.

use serde_json::json;
use service_api::{audit_events::EventName, ids::UserId};
use service_rules::{Timestamp, email::Address, lifetimes, signing::later};

use crate::{
    app::App,
    database::{Connection, restore_fence::Fence},
    flows::{account::address_change::find_sso_domain, node_event, sign_in::email_key::email_key, sso::required},
    mail::Email,
    store::{self, Batch},
};

/// Addresses that are changed before the list is read again.
const CHANGES_PER_READ: i64 = 100;

/// Changes the addresses that are due; returns how many these are. One that fails does not stop the others, and is tried again.
pub async fn change_due(app: &App) -> anyhow::Result<u64> {
    if app.fence() != Fence::Open {
        // The database looks restored: a request to stop a change may be lost.
        return Ok(0);
    }
    let db = app.background_database.connect().await?;
    let (database_time, now) = (store::database_time(&db).await?, app.clock.now());
    anyhow::ensure!(!app.clock.is_off(now, database_time), "this node's clock differs from the database's");
    let due = store::address_changes::list_due(&db, Batch { now, size: CHANGES_PER_READ }).await?;
    drop(db);
    let (mut changed, mut failure) = (0, None);
    for user_id in due {
        match change(app, user_id, now).await {
            Ok(is_changed) => changed += u64::from(is_changed),
            Err(error) => {
                failure.get_or_insert(error);
            }
        }
    }
    failure.map_or(Ok(changed), Err)
}

/// Changes the address of a user; `false`: the change was stopped, another node made it, or the address has to stay.
async fn change(app: &App, user_id: UserId, now: Timestamp) -> anyhow::Result<bool> {
    let db = app.background_database.begin().await?;
    let is_enabled = store::users::lock(&db, user_id).await?;
    let Some(address) = store::address_changes::delete_due(&db, user_id, now).await? else { return Ok(false) };
    let Some(current) = store::users::find_address(&db, user_id).await?.filter(|_| is_enabled) else {
        // A closed account keeps its address.
        db.commit().await?;
        return Ok(false);
    };
    let new = Address::parse(&address).map_err(|_| anyhow::anyhow!("address_changes.address holds no address"))?;
    let is_changed = find_sso_domain(app, &db, [&current, &new]).await?.is_none()
        && assign(app, &db, user_id, [&current, &new], now).await?;
    let mails = if is_changed {
        let mut event = node_event(EventName::AddressChanged, now, json!({ "email": new.as_str() }))?.user(user_id);
        event.keys = Some(app.audit_keys.clone());
        event.insert(&db).await?;
        let of = |to: &Address| Email::AddressChanged { to: to.as_str().to_owned(), email: address.clone(), user_id };
        vec![of(&current), of(&new)]
    } else {
        let details = json!({ "by": "conflict" });
        node_event(EventName::AddressChangeStopped, now, details)?.user(user_id).insert(&db).await?;
        vec![Email::AddressNotChanged { to: current.as_str().to_owned(), email: address.clone() }]
    };
    for mail in mails {
        mail.enqueue(&app.root_keys, &db, now, later(now, lifetimes::WARNING)).await?;
    }
    db.commit().await?;
    if is_changed {
        app.metrics.account.addresses_changed.inc();
    }
    app.mail_waiting.notify_one();
    Ok(is_changed)
}

/// Makes a change again that was made after a backup; `false`: it is made, or another account has the address.
pub(in crate::flows) async fn repeat(
    app: &App,
    db: &Connection,
    user_id: UserId,
    email: Option<&str>,
) -> anyhow::Result<bool> {
    store::users::lock(db, user_id).await?;
    let new = email.and_then(|email| Address::parse(email).ok());
    let (Some(current), Some(new)) = (store::users::find_address(db, user_id).await?, new) else { return Ok(false) };
    Ok(current != new && assign(app, db, user_id, [&current, &new], app.clock.now()).await?)
}

/// Gives a user a new address in place of the current one; `false`: another account has it.
async fn assign(
    app: &App,
    db: &Connection,
    user_id: UserId,
    [current, new]: [&Address; 2],
    now: Timestamp,
) -> anyhow::Result<bool> {
    let (former, assigned) = (email_key(app, db, current).await?, email_key(app, db, new).await?);
    // In the order of a sign-in, which consumes a code before it claims an address.
    for email in [former, assigned] {
        store::otps::delete_by_address(db, email).await?;
    }
    if !store::emails::insert(db, assigned, user_id, now).await? {
        return Ok(false);
    }
    store::emails::delete(db, former, user_id).await?;
    store::users::update_email(db, user_id, new).await?;
    // Devices are remembered for an address. The next user of the former one must not share limits with them.
    store::devices::delete_by_user(db, user_id, None).await?;
    if current.domain() != new.domain() {
        // A company decides about addresses of its domains only.
        required::bring_back(db, user_id, None).await?;
        store::erasure::delete_identities(db, user_id).await?;
    }
    Ok(true)
}
