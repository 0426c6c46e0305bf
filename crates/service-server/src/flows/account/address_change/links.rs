//! The links that confirm or stop a change of an address.
//!
//! The page behind a link only shows the change, because mail systems open links, too; its forms confirm or stop it. A link
//! authenticates no user, and does nothing else.

use serde_json::json;
use service_api::{audit_events::EventName, ids::UserId, token::Token};
use service_rules::{Timestamp, lifetimes, signing::later};

use crate::{
    app::App,
    crypto::random,
    database,
    flows::{
        RequestMeta,
        account::address_change::{Stop, derive_link},
        check_clock,
    },
    mail::Email,
    store::{
        self,
        address_changes::{LinkKey, Mailbox, StoredAddressChange},
    },
};

/// Why a link does nothing.
#[derive(Debug, thiserror::Error)]
pub enum AddressLinkError {
    #[error("the change was made, stopped, replaced or not confirmed in time")]
    NotFound,
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// The change of a link.
pub struct LinkedChange {
    /// Whether the link was sent to the new address.
    pub is_new_address: bool,
    /// The new address.
    pub email: String,
    /// Whether the mailbox has confirmed it.
    pub is_confirmed: bool,
    /// When the address is changed. `None`: a confirmation is missing.
    pub due_at: Option<Timestamp>,
}

impl LinkedChange {
    fn of(stored: StoredAddressChange, mailbox: Mailbox) -> Self {
        let is_confirmed = match mailbox {
            Mailbox::Current => stored.current_confirmed,
            Mailbox::New => stored.new_confirmed,
        };
        let is_new_address = mailbox == Mailbox::New;
        Self { is_new_address, email: stored.address, is_confirmed, due_at: stored.due_at }
    }
}

/// Finds the change of a link.
pub async fn find(app: &App, secret: &str) -> Result<LinkedChange, AddressLinkError> {
    let db = app.database.connect().await?;
    let found = store::address_changes::find_by_link(&db, &parse(secret)?, app.clock.now()).await?;
    let (stored, mailbox) = found.ok_or(AddressLinkError::NotFound)?;
    Ok(LinkedChange::of(stored, mailbox))
}

/// Confirms the change of a link. Another time changes nothing.
pub async fn confirm(app: &App, meta: &RequestMeta, secret: &str) -> Result<LinkedChange, AddressLinkError> {
    let (key, now) = (parse(secret)?, app.clock.now());
    let db = app.database.begin().await?;
    let found = store::address_changes::find_by_link(&db, &key, now).await?;
    let (before, mailbox) = found.ok_or(AddressLinkError::NotFound)?;
    let user_id = before.user_id;
    if !store::users::lock(&db, user_id).await? {
        return Err(AddressLinkError::NotFound);
    }
    // The other mailbox may have confirmed it while this request waited for the lock.
    let found = store::address_changes::find_by_link(&db, &key, now).await?;
    let (before, _) = found.ok_or(AddressLinkError::NotFound)?;
    let before = LinkedChange::of(before, mailbox);
    if before.is_confirmed {
        return Ok(before);
    }
    // A slow clock would shorten the day in which it can be stopped.
    check_clock(app, &db, now).await?;
    let due_at = later(now, lifetimes::ADDRESS_CHANGE);
    let confirmed = store::address_changes::confirm(&db, &key, now, due_at).await?;
    let confirmed = confirmed.ok_or(AddressLinkError::NotFound)?;
    let event = meta.event(EventName::AddressChangeConfirmed, now, json!({ "by": mailbox.name() }))?;
    event.user(user_id).insert(&db).await?;
    if confirmed.due_at.is_some() {
        tell_of_change(app, &db, user_id, &confirmed, now).await?;
    }
    db.commit().await?;
    app.mail_waiting.notify_one();
    Ok(LinkedChange::of(confirmed, mailbox))
}

/// Tells the current address when it is changed, with the link that stops it.
async fn tell_of_change(
    app: &App,
    db: &database::Connection,
    user_id: UserId,
    confirmed: &StoredAddressChange,
    now: Timestamp,
) -> Result<(), AddressLinkError> {
    let Some(due_at) = confirmed.due_at else { return Ok(()) };
    let link = derive_link(app, confirmed.mac_key, user_id, confirmed.id, Mailbox::Current);
    let unavailable = || database::Error::Unavailable("the root key of a link is not configured".into());
    let link = link.ok_or_else(unavailable)?;
    if let Some(user) = store::users::find(db, user_id).await? {
        let mail = Email::AddressChangeDue { to: user.email, email: confirmed.address.clone(), due_at, link };
        mail.enqueue(&app.root_keys, db, now, later(due_at, lifetimes::WARNING)).await?;
    }
    Ok(())
}

/// Stops the change of a link. A new address that has not confirmed it only makes its own link invalid.
pub async fn stop(app: &App, meta: &RequestMeta, secret: &str) -> Result<(), AddressLinkError> {
    let (key, now) = (parse(secret)?, app.clock.now());
    let db = app.database.begin().await?;
    let found = store::address_changes::find_by_link(&db, &key, now).await?;
    let (stored, mailbox) = found.ok_or(AddressLinkError::NotFound)?;
    let user_id = stored.user_id;
    store::users::lock(&db, user_id).await?;
    if mailbox == Mailbox::New && !stored.new_confirmed {
        // The user is not told: a request would show whether the address has an account, and whether it is read.
        let no_link = random::bytes()?;
        if !store::address_changes::replace_new_link(&db, &key, &no_link).await? {
            return Err(AddressLinkError::NotFound);
        }
        return Ok(db.commit().await?);
    }
    let address = store::address_changes::delete_by_link(&db, &key).await?.ok_or(AddressLinkError::NotFound)?;
    let event = meta.event(EventName::AddressChangeStopped, now, json!({ "by": mailbox.name() }))?.user(user_id);
    Stop { user_id, address, now }.record(app, &db, event).await?;
    db.commit().await?;
    app.metrics.account.address_changes_stopped.inc();
    app.mail_waiting.notify_one();
    Ok(())
}

fn parse(secret: &str) -> Result<LinkKey, AddressLinkError> {
    Ok(LinkKey::of(&Token::parse(secret).ok_or(AddressLinkError::NotFound)?))
}
