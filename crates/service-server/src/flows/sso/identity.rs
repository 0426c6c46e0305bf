//! Signs a verified identity in: to its own account, or to a new one.
//!
//! One transaction reads what is known about the identity, lets `service_rules::sso` judge, and carries the verdict out. A
//! new account becomes a member of the connection's workspace at once. An existing account is never linked here.

use serde_json::json;
use service_api::{audit_events::EventName, ids::UserId, token::DeviceSecret};
use service_rules::{
    Timestamp,
    email::Address,
    sso::{self as rules, Account, Identity, IdentityError, IdentityFacts, IdentityVerdict},
};

use crate::{
    app::App,
    database::{self, Connection},
    flows::{
        RequestMeta,
        account::deletion::{self, ClosedAccount},
        sign_in::{
            accounts,
            browser_session::Browser,
            devices,
            email_key::{domain_key, email_key},
            new_sign_in::NewSignIn,
            step_up,
        },
        sso::{SsoError, find_usable},
    },
    mail::SignedInWith,
    store::{
        self, browser_sessions::BrowserSignIn, connections::StoredConnection, identities,
        user_connections::UserConnection,
    },
};

/// A transaction that loses a race with another sign-in of the same user begins again.
const MAX_ATTEMPTS: usize = 3;

/// An identity that has just signed in at the provider of a connection.
pub(super) struct ProvenIdentity<'a> {
    pub(super) app: &'a App,
    pub(super) meta: &'a RequestMeta,
    pub(super) connection: &'a StoredConnection,
    pub(super) identity: &'a Identity,
    /// When the user authenticated, if that is known.
    pub(super) auth_time: Option<Timestamp>,
    pub(super) now: Timestamp,
}

/// What signing an identity in came to. A refusal is data until its transaction has ended.
pub(super) enum IdentityOutcome {
    SignedIn,
    /// The account with this address exists, and its owner has to link the identity.
    Link(Address),
    Refused(IdentityError),
    /// The user closed the account.
    Closed(ClosedAccount),
}

impl ProvenIdentity<'_> {
    pub(super) async fn sign_in(&self, browser: &mut Browser) -> Result<IdentityOutcome, SsoError> {
        for _ in 0..MAX_ATTEMPTS {
            if let Some(outcome) = self.try_sign_in(browser).await? {
                return Ok(outcome);
            }
        }
        Err(database::Error::Unavailable("the same user signed in elsewhere at the same time".into()).into())
    }

    /// `None`: another transaction linked the identity or created the account first.
    async fn try_sign_in(&self, browser: &mut Browser) -> Result<Option<IdentityOutcome>, SsoError> {
        let Self { app, connection, identity, now, .. } = *self;
        let db = app.database.begin().await?;
        // It may have been disabled while the provider was asked.
        find_usable(&db, connection.id, false).await?;
        let domains =
            store::workspace_domains::verified_domains_of(&db, connection.id, connection.workspace_id).await?;
        let linked = self.linked_account(&db).await?;
        let by_address = match &identity.address {
            Some(address) if linked.is_none() => self.account_of(&db, address).await?,
            Some(_) | None => None,
        };
        let facts = IdentityFacts { domains: &domains, linked, by_address };
        let linked = facts.linked.as_ref().map(|account| account.address.clone());
        let (user_id, address) = match rules::judge(identity, &facts) {
            Err(IdentityError::AccountDisabled) => {
                let closed = match &facts.linked {
                    Some(account) => deletion::find_closed(app, &db, account.user_id).await?,
                    None => None,
                };
                let refused = IdentityOutcome::Refused(IdentityError::AccountDisabled);
                return Ok(Some(closed.map_or(refused, IdentityOutcome::Closed)));
            }
            Err(error) => return Ok(Some(IdentityOutcome::Refused(error))),
            Ok(IdentityVerdict::Link(address)) => return Ok(Some(IdentityOutcome::Link(address))),
            Ok(IdentityVerdict::SignIn(user_id)) => {
                if !store::users::lock_enabled(&db, user_id).await? {
                    return Ok(Some(IdentityOutcome::Refused(IdentityError::AccountDisabled)));
                }
                if store::users::find_address(&db, user_id).await? != linked {
                    // The address was changed meanwhile.
                    return Ok(None);
                }
                if !self.is_routed(&db, linked.as_ref()).await? {
                    return Ok(Some(IdentityOutcome::Refused(IdentityError::ForeignDomain)));
                }
                if step_up::requires_passkey(app, &db, user_id).await? {
                    return Ok(Some(IdentityOutcome::Refused(IdentityError::PasskeyRequired)));
                }
                identities::mark_signed_in(&db, &self.stored(), now).await?;
                (user_id, linked)
            }
            Ok(IdentityVerdict::Create(address)) => match self.create(&db, &address).await? {
                Some(user_id) if self.is_routed(&db, Some(&address)).await? => (user_id, Some(address)),
                Some(_) => return Ok(Some(IdentityOutcome::Refused(IdentityError::ForeignDomain))),
                None => return Ok(None),
            },
        };
        self.open(&db, browser, user_id).await?;
        let device = match &address {
            Some(address) => self.remember_device(&db, browser, user_id, address).await?,
            None => None,
        };
        db.commit().await?;
        app.mail_waiting.notify_one();
        browser.remember_device(device, self.meta.device.as_ref());
        Ok(Some(IdentityOutcome::SignedIn))
    }

    /// Stores the device of the browser, and mails its user if it is new to the account. Returns its secret if it has none.
    async fn remember_device(
        &self,
        db: &Connection,
        browser: &Browser,
        user_id: UserId,
        address: &Address,
    ) -> anyhow::Result<Option<DeviceSecret>> {
        let Self { app, meta, now, .. } = *self;
        let signed_in = devices::SignedIn { user_id, address, presented: meta.device.as_ref(), asked_by: None, now };
        let remembered = devices::remember(app, db, &signed_in).await?;
        if remembered.new_to_address.is_some() {
            let (session_id, with) = (browser.id.to_string(), SignedInWith::browser(meta.agent));
            let new = NewSignIn { user_id, session_id, device: remembered.new_to_address, with };
            new.enqueue_mail(app, meta, db, now).await?;
        }
        Ok(remembered.secret)
    }

    /// Whether users of an address still sign in through this connection. The route is locked: the domain does not move before
    /// this transaction ends. The user must be locked first.
    pub(super) async fn is_routed(&self, db: &Connection, address: Option<&Address>) -> Result<bool, database::Error> {
        let Some(address) = address else { return Ok(false) };
        let key = domain_key(self.app, db, address.domain()).await?;
        let route = store::routed_domains::lock_route(db, key).await?;
        Ok(route.is_some_and(|route| route.connection_id == self.connection.id))
    }

    async fn linked_account(&self, db: &Connection) -> Result<Option<Account>, SsoError> {
        let found = identities::find_user(db, self.connection.id, &self.identity.subject).await?;
        let Some(user_id) = found else { return Ok(None) };
        let Some(user) = store::users::find(db, user_id).await? else { return Ok(None) };
        let address = Address::parse(&user.email).map_err(|_| anyhow::anyhow!("a user has an invalid address"))?;
        Ok(Some(Account { user_id, address, disabled: user.disabled }))
    }

    async fn account_of(&self, db: &Connection, address: &Address) -> Result<Option<Account>, SsoError> {
        let found = store::emails::find_user(db, email_key(self.app, db, address).await?).await?;
        Ok(found.map(|account| Account {
            user_id: account.user_id,
            address: address.clone(),
            disabled: account.disabled,
        }))
    }

    /// Creates an account that is linked with the identity and a member of the workspace. `None`: another transaction was
    /// first.
    async fn create(&self, db: &Connection, address: &Address) -> Result<Option<UserId>, SsoError> {
        let email = email_key(self.app, db, address).await?;
        let account = accounts::find_or_create(self.meta, db, email, self.now).await?;
        if !account.is_new {
            return Ok(None);
        }
        let linked = self.link(db, account.user_id).await?;
        Ok(linked.then_some(account.user_id))
    }

    /// Links the identity with a user, who becomes a member of the workspace. `false`: it is linked already.
    pub(super) async fn link(&self, db: &Connection, user_id: UserId) -> anyhow::Result<bool> {
        let Self { connection, meta, now, .. } = *self;
        if !identities::insert(db, &self.stored(), user_id, now).await? {
            return Ok(false);
        }
        let (id, role) = (connection.workspace_id, connection.default_role);
        if !store::workspaces::lock(db, id).await? {
            return Err(database::Error::Unavailable("the workspace was deleted meanwhile".into()).into());
        }
        if store::memberships::join(db, user_id, id, role, now).await? {
            let event = meta.event(EventName::MemberJoined, now, json!({ "role": role, "by": connection.id }))?;
            event.user(user_id).in_workspace(id).without_address().insert(db).await?;
        }
        Ok(true)
    }

    /// Signs the browser in, and brings back the credentials that waited for this.
    pub(super) async fn open(&self, db: &Connection, browser: &mut Browser, user_id: UserId) -> anyhow::Result<()> {
        let Self { app, meta, connection, auth_time, now, .. } = *self;
        let connection_id = connection.id;
        let session_end = rules::session_end(now, connection.session_hours);
        store::connection_grants::extend(db, user_id, connection_id, session_end).await?;
        let subject = self.identity.subject.as_str();
        let tokens_until = rules::tokens_end(now, connection.token_days);
        let recorded = UserConnection { user_id, connection_id, subject, signed_in_at: now, tokens_until };
        store::user_connections::replace(db, &recorded).await?;
        let details = json!({ "method": "sso", "connectionId": connection_id });
        let event = meta.event(EventName::SignInSucceeded, now, details)?.user(user_id);
        event.in_workspace(connection.workspace_id).subject(connection_id).insert(db).await?;
        let (connection_id, origin) = (Some(connection_id), meta.sign_in_origin());
        let sign_in = BrowserSignIn { user_id, signed_in_at: now, auth_time, connection_id, origin };
        browser.sign_in_through(app, db, sign_in, session_end).await
    }

    pub(super) fn stored(&self) -> identities::Identity<'_> {
        let email = self.identity.address.as_ref().map_or("", Address::as_str);
        identities::Identity { connection_id: self.connection.id, subject: &self.identity.subject, email }
    }
}
