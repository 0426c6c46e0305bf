//! Changing the email address of an account. Both addresses confirm it, and the current one has a day to stop it.
//!
//! 1. The user signed in within the last 15 minutes, by a passkey if one counts. Single sign-on is required in neither domain.
//! 2. A link is sent to each address. If the new one has an account, it gets a mail without a link instead, so that the request
//!    is never confirmed; the answer to the request is the same.
//! 3. The page behind a link confirms or stops the change (`links.rs`). Once both addresses have confirmed it, the current one
//!    is told that it is changed after 24 hours.
//! 4. Any session of the user stops it until then. So does revoking the session that requested it (`service_rules::lineage`), but not
//!    its end by itself.
//! 5. A background task changes the address (`due.rs`). Sessions and tokens stay as they are.

pub mod due;
pub mod links;

use serde_json::json;
use service_api::{
    address_change::AddressChange,
    audit_events::EventName,
    ids::{AddressChangeId, Id as _, UserId},
    token::{AddressLink, Token},
};
use service_rules::{
    Timestamp,
    email::{Address, InvalidAddress},
    lifetimes,
    limits::{Limited, Window},
    network::recorded,
    signing::later,
};

use crate::{
    app::App,
    crypto::{random, root_keys::Purpose},
    database::{self, Connection},
    flows::{
        Actor, RequestMeta,
        account::{AccountError, actor, signed_in},
        check_clock,
        rate_limit::{Limit, NetworkLimit},
        sign_in::{
            browser_session::Browser,
            email_key::email_key,
            step_up::{self, RecentSignIn},
        },
        sso::required,
    },
    mail::Email,
    store::{
        self,
        address_changes::{LinkKey, Mailbox, NewAddressChange, StoredAddressChange},
        audit_events::NewAuditEvent,
    },
};

/// Requests of a user that one day allows. Each one sends two mails.
const REQUESTS: [Window; 1] = [Window { count: 3, seconds: 86_400 }];
/// Requests for one new address that one day allows from one network: the mails are unasked for.
const REQUESTS_FROM_NETWORK: [Window; 1] = [Window { count: 5, seconds: 86_400 }];
/// Requests for one new address that one day allows from all networks together.
const REQUESTS_FOR_ADDRESS: [Window; 1] = [Window { count: 30, seconds: 86_400 }];

/// Why an address is not changed, or the request for it not shown or stopped.
#[derive(Debug, thiserror::Error)]
pub enum AddressChangeError {
    #[error("the session ended while the request ran")]
    SessionEnded,
    #[error(transparent)]
    InvalidAddress(#[from] InvalidAddress),
    #[error("the account has this address")]
    Same,
    #[error("single sign-on is required in the domain {0}")]
    SsoRequired(String),
    #[error("no change is requested")]
    NotRequested,
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// Requests a change for the user who is signed in with a browser.
pub async fn request_from_browser(
    app: &App,
    meta: &RequestMeta,
    browser: &Browser,
    email: &str,
) -> Result<AddressChange, AccountError> {
    let actor = actor(browser, meta)?;
    let sign_in = step_up::require_recent_sign_in(app, &actor).await?;
    Ok(request(app, &actor, sign_in, email).await?)
}

/// Requests a change, in place of one that was requested before.
pub async fn request(
    app: &App,
    actor: &Actor<'_>,
    _: RecentSignIn,
    email: &str,
) -> Result<AddressChange, AddressChangeError> {
    let (user_id, now) = (actor.user_id, app.clock.now());
    let new = Address::parse(email)?;
    let db = app.database.begin().await?;
    check_clock(app, &db, now).await?;
    // The user, the routes, then the session: in this order everything locks them.
    store::users::lock(&db, user_id).await?;
    let current = store::users::find_address(&db, user_id).await?.ok_or(AddressChangeError::SessionEnded)?;
    if new == current {
        return Err(AddressChangeError::Same);
    }
    take_limits(app, &db, actor, &new, now).await?;
    if let Some(domain) = find_sso_domain(app, &db, [&current, &new]).await? {
        return Err(AddressChangeError::SsoRequired(domain));
    }
    actor.hold(&db, now).await?.ok_or(AddressChangeError::SessionEnded)?;
    let is_taken = store::emails::find_user(&db, email_key(app, &db, &new).await?).await?.is_some();
    let mac_key = app.root_keys.key_in_use();
    let id: AddressChangeId = random::id_in(user_id.shard(), now)?;
    let link = |mailbox| {
        derive_link(app, mac_key, user_id, id, mailbox).ok_or_else(|| anyhow::anyhow!("no root key is in use"))
    };
    let links = Links { current: link(Mailbox::Current)?, new: link(Mailbox::New)? };
    let requested = NewAddressChange {
        user_id,
        id,
        address: &new,
        current: LinkKey::of(&links.current),
        new: LinkKey::of(&links.new),
        mac_key,
        made_by: actor.basis.to_string(),
        requested_at: now,
        expires_at: later(now, lifetimes::ADDRESS_CONFIRMATION),
    };
    store::address_changes::replace(&db, &requested).await?;
    let details = json!({ "by": actor.basis.to_string(), "email": new.as_str() });
    actor.user_event(EventName::AddressChangeRequested, now, details)?.subject(id).insert(&db).await?;
    let mails = RequestMails { meta: actor.meta, requested: &requested, current: &current, is_taken };
    mails.enqueue(app, &db, links).await?;
    db.commit().await?;
    app.metrics.account.address_changes_requested.inc();
    app.mail_waiting.notify_one();
    Ok(AddressChange {
        email: new.as_str().to_owned(),
        requested_at: now,
        expires_at: requested.expires_at,
        confirmed_by_current_address: false,
        confirmed_by_new_address: false,
        changed_on: None,
    })
}

/// The secrets of the links to the two addresses.
struct Links {
    current: Token<AddressLink>,
    new: Token<AddressLink>,
}

/// The mails of a request.
struct RequestMails<'a> {
    meta: &'a RequestMeta,
    requested: &'a NewAddressChange<'a>,
    current: &'a Address,
    /// Whether the new address has an account.
    is_taken: bool,
}

impl RequestMails<'_> {
    /// Mails a link to each address. A new address that has an account gets none.
    async fn enqueue(&self, app: &App, db: &Connection, links: Links) -> anyhow::Result<()> {
        let (at, from, language) = (self.requested.requested_at, self.meta.address.to_string(), self.meta.language);
        let (current, new) = (self.current.as_str().to_owned(), self.requested.address.as_str().to_owned());
        let to_new = if self.is_taken {
            Email::AddressInUse { to: new.clone(), at, from: from.clone(), language }
        } else {
            Email::AddressConfirmation { to: new.clone(), at, from: from.clone(), link: links.new, language }
        };
        let to_current = Email::AddressChangeRequested { to: current, email: new, at, from, link: links.current };
        for mail in [to_current, to_new] {
            mail.enqueue(&app.root_keys, db, at, self.requested.expires_at).await?;
        }
        Ok(())
    }
}

/// Counts a request against the user, and against the address that gets an unasked mail: in the network of the request, so that
/// no one else uses up what its owner needs, and over all networks.
async fn take_limits(
    app: &App,
    db: &Connection,
    actor: &Actor<'_>,
    new: &Address,
    now: Timestamp,
) -> Result<(), AddressChangeError> {
    let (whom, network) = (actor.user_id.uuid(), recorded(actor.meta.address).to_string());
    let address_and_network = [new.as_str(), &network].join(" ");
    let limits: [(&str, &[u8], &[Window]); 3] = [
        ("address-changes", whom.as_bytes(), &REQUESTS),
        ("address-changes-address-network", address_and_network.as_bytes(), &REQUESTS_FROM_NETWORK),
        ("address-changes-address", new.as_str().as_bytes(), &REQUESTS_FOR_ADDRESS),
    ];
    for (policy, whom, windows) in limits {
        if let Some(limited) = (Limit { policy, whom }).take_in_windows(app, db, windows, now).await? {
            return Err(limited.into());
        }
    }
    let (address, rates) = (actor.meta.address, app.config.limits.otp_sends_per_network);
    let of_network = NetworkLimit { policy: "address-changes-network", address, rates };
    match of_network.take(app, db, now).await? {
        Some(limited) => Err(limited.into()),
        None => Ok(()),
    }
}

/// The first of these addresses' domains in which single sign-on is required. The routes are locked: it does not become required
/// before this transaction ends. The user must be locked.
async fn find_sso_domain(
    app: &App,
    db: &Connection,
    mut addresses: [&Address; 2],
) -> Result<Option<String>, database::Error> {
    // Every transaction locks routes in the order of the domains.
    addresses.sort_unstable_by_key(|address| address.domain());
    for address in addresses {
        if required::lock_route(app, db, address).await?.is_some_and(|route| route.required) {
            return Ok(Some(address.domain().to_owned()));
        }
    }
    Ok(None)
}

/// Returns the change that the user of a token has requested.
pub async fn read(app: &App, actor: &Actor<'_>) -> Result<AddressChange, AddressChangeError> {
    let db = app.database.connect().await?;
    let found = store::address_changes::find(&db, actor.user_id, app.clock.now()).await?;
    found.map(Into::into).ok_or(AddressChangeError::NotRequested)
}

/// Returns the change that the user who is signed in with a browser has requested, if any.
pub async fn read_from_browser(app: &App, browser: &Browser) -> Result<Option<AddressChange>, AccountError> {
    let user_id = signed_in(browser)?.user_id;
    let found = store::address_changes::find(&app.database.connect().await?, user_id, app.clock.now()).await?;
    Ok(found.map(Into::into))
}

/// Stops the change of the user who is signed in with a browser, however long ago.
pub async fn stop_from_browser(app: &App, meta: &RequestMeta, browser: &Browser) -> Result<(), AccountError> {
    Ok(stop(app, &actor(browser, meta)?).await?)
}

/// Stops the change of the user of a token, however long ago the user signed in.
pub async fn stop(app: &App, actor: &Actor<'_>) -> Result<(), AddressChangeError> {
    let now = app.clock.now();
    let db = app.database.begin().await?;
    if !actor.hold_session(&db).await? {
        return Err(AddressChangeError::SessionEnded);
    }
    let stopped = store::address_changes::delete(&db, actor.user_id).await?;
    let address = stopped.ok_or(AddressChangeError::NotRequested)?;
    let details = json!({ "by": actor.basis.to_string() });
    let event = actor.user_event(EventName::AddressChangeStopped, now, details)?;
    Stop { user_id: actor.user_id, address, now }.record(app, &db, event).await?;
    db.commit().await?;
    app.metrics.account.address_changes_stopped.inc();
    app.mail_waiting.notify_one();
    Ok(())
}

/// Stops the change of a user, if there is one, because the account may be in the hands of another person.
pub(in crate::flows) async fn stop_of(
    app: &App,
    meta: &RequestMeta,
    db: &Connection,
    user_id: UserId,
) -> anyhow::Result<bool> {
    let Some(address) = store::address_changes::delete(db, user_id).await? else { return Ok(false) };
    let now = app.clock.now();
    let event = meta.event(EventName::AddressChangeStopped, now, json!({}))?.user(user_id);
    Stop { user_id, address, now }.record(app, db, event).await?;
    Ok(true)
}

/// A change that was stopped in a transaction.
pub(in crate::flows) struct Stop {
    pub(in crate::flows) user_id: UserId,
    /// The address that the account would have had.
    pub(in crate::flows) address: String,
    pub(in crate::flows) now: Timestamp,
}

impl Stop {
    /// Records it, and tells the user.
    pub(in crate::flows) async fn record(
        self,
        app: &App,
        db: &Connection,
        event: NewAuditEvent<'_>,
    ) -> anyhow::Result<()> {
        event.insert(db).await?;
        self.tell(app, db).await
    }

    /// Tells the user.
    pub(in crate::flows) async fn tell(self, app: &App, db: &Connection) -> anyhow::Result<()> {
        let Self { user_id, address, now } = self;
        if let Some(user) = store::users::find(db, user_id).await? {
            let mail = Email::AddressChangeStopped { to: user.email, email: address, at: now };
            mail.enqueue(&app.root_keys, db, now, later(now, lifetimes::WARNING)).await?;
            app.mail_waiting.notify_one();
        }
        Ok(())
    }
}

impl From<StoredAddressChange> for AddressChange {
    fn from(stored: StoredAddressChange) -> Self {
        Self {
            email: stored.address,
            requested_at: stored.requested_at,
            expires_at: stored.expires_at,
            confirmed_by_current_address: stored.current_confirmed,
            confirmed_by_new_address: stored.new_confirmed,
            changed_on: stored.due_at,
        }
    }
}

/// The secret of the link to a mailbox. It is derived, so that a later mail has the same one. `None`: the root key is not
/// configured.
fn derive_link(
    app: &App,
    key_id: u8,
    user_id: UserId,
    id: AddressChangeId,
    mailbox: Mailbox,
) -> Option<Token<AddressLink>> {
    let (whom, change) = (user_id.uuid(), id.uuid());
    let secret = app.root_keys.mac_under(
        key_id,
        Purpose::AddressLink,
        &[whom.as_bytes(), change.as_bytes(), mailbox.name().as_bytes()],
    )?;
    Some(Token::in_shard(user_id.shard(), secret))
}
