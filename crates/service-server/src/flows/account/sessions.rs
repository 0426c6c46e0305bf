//! A user's browsers and sessions by client: listing them, and revoking one or all.

use std::collections::BTreeMap;

use serde_json::json;
use service_api::{
    audit_events::EventName,
    errors::Reason,
    ids::{BrowserSessionId, GrantId, Id as _, UserId, WorkspaceId},
    sessions::{MadeTreatment, Session, SessionClient},
};
use service_rules::{Timestamp, consent, lineage::Event, rotation};

use crate::{
    app::App,
    database::{self, Connection},
    flows::{
        RequestMeta,
        account::{AccountError, actor, signed_in},
        oauth::consents,
        revocation::{
            RevocationTransaction,
            lineage::{Cause, LineageRevocation},
        },
        sign_in::{
            browser_session::{self, Browser},
            devices, step_up,
        },
    },
    pagination::List,
    store::{
        self,
        browser_sessions::{self, ListedBrowser, SignedInUser},
        grants::{GrantQuery, GrantSelection},
        lineage::LineageItem,
    },
};

const CLIENTS_PER_PAGE: u16 = 10;
/// Sessions of each client, and browsers, that the page of all clients shows.
const SESSIONS_PER_CLIENT: u16 = 5;
/// Sessions or browsers on a page that shows those of one client only.
const SESSIONS_PER_PAGE: u16 = 25;

/// The sessions that a page shows.
#[derive(Clone, Copy, Debug)]
pub enum Only<'a> {
    /// Browsers, and clients with their latest sessions.
    Everything,
    Browsers,
    Client(&'a str),
}

#[derive(Default)]
pub struct Sessions {
    pub browsers: Vec<ListedBrowser>,
    /// Whether there are more browsers than these.
    pub more_browsers: bool,
    pub clients: Vec<ClientSessions>,
    pub next_cursor: Option<String>,
    /// The names of the user's workspaces.
    pub workspaces: BTreeMap<WorkspaceId, String>,
    /// The live tokens and invitations that each of these sessions and browsers created, by its id.
    pub made: BTreeMap<String, Vec<LineageItem>>,
}

/// The sessions of one client.
pub struct ClientSessions {
    pub client: SessionClient,
    /// Whether an operator has verified the client's name.
    pub name_verified: bool,
    /// How many there are.
    pub total: i64,
    /// The latest of them.
    pub sessions: Vec<Session>,
}

pub async fn list(
    app: &App,
    browser: &Browser,
    only: Only<'_>,
    cursor: Option<&str>,
) -> Result<Sessions, AccountError> {
    let listing = Listing { app, person: signed_in(browser)?, cursor, now: app.clock.now() };
    let db = app.database.connect().await?;
    let mut sessions = match only {
        Only::Everything => listing.everything(&db).await?,
        Only::Browsers => listing.browsers(&db).await?,
        Only::Client(id) => listing.client(&db, id).await?,
    };
    for shown in &mut sessions.clients {
        app.config.brand.rename(&mut shown.client);
    }
    let grants = sessions.clients.iter().flat_map(|client| &client.sessions).map(|session| session.id.to_string());
    let makers: Vec<_> = grants.chain(sessions.browsers.iter().map(|browser| browser.id.to_string())).collect();
    for found in store::lineage::list_made(&db, listing.person.user_id, &makers, listing.now).await? {
        sessions.made.entry(found.made_by.clone()).or_default().push(found);
    }
    let workspaces = store::members::list_workspaces(&db, listing.person.user_id).await?;
    sessions.workspaces = workspaces.iter().map(|workspace| (workspace.id, workspace.with_owner())).collect();
    Ok(sessions)
}

/// One page of a user's sessions.
struct Listing<'a> {
    app: &'a App,
    person: &'a SignedInUser,
    cursor: Option<&'a str>,
    now: Timestamp,
}

impl Listing<'_> {
    fn sessions(&self, before: Option<GrantId>, limit: i64) -> GrantQuery {
        GrantQuery { now: self.now, used_after: rotation::idle_since(self.now), before, limit }
    }

    fn browsers_listed(&self, before: Option<BrowserSessionId>, limit: i64) -> browser_sessions::BrowserSessionQuery {
        browser_sessions::BrowserSessionQuery {
            now: self.now,
            seen_since: browser_session::idle_since(self.now),
            before,
            limit,
        }
    }

    async fn everything(&self, db: &Connection) -> Result<Sessions, AccountError> {
        let user_id = self.person.user_id;
        let owner = user_id.to_string();
        let list =
            List { root_keys: &self.app.root_keys, of: &[b"clients", owner.as_bytes()], limit: CLIENTS_PER_PAGE };
        let before = list.behind(self.cursor)?.map(GrantId::from);
        let mut shown = Sessions::default();
        if before.is_none() {
            let listed = self.browsers_listed(None, i64::from(SESSIONS_PER_CLIENT) + 1);
            shown.browsers = browser_sessions::list_by_user(db, user_id, &listed).await?;
            shown.more_browsers = shown.browsers.len() > usize::from(SESSIONS_PER_CLIENT);
            shown.browsers.truncate(SESSIONS_PER_CLIENT.into());
        }
        let clients = store::grants::list_clients(db, user_id, &self.sessions(before, list.rows())).await?;
        let clients = list.page(clients, |client| client.newest.uuid());
        shown.next_cursor = clients.next_cursor;
        let ids: Vec<_> = clients.data.iter().map(|client| client.client.id.as_str()).collect();
        let listed = self.sessions(None, SESSIONS_PER_CLIENT.into());
        let mut sessions = store::grants::list_by_clients(db, user_id, &ids, &listed).await?;
        for client in clients.data {
            let (own, others) = sessions.into_iter().partition(|session| session.client.id == client.client.id);
            sessions = others;
            let (client, name_verified, total) = (client.client, client.name_verified, client.sessions);
            shown.clients.push(ClientSessions { client, name_verified, total, sessions: own });
        }
        Ok(shown)
    }

    async fn browsers(&self, db: &Connection) -> Result<Sessions, AccountError> {
        let owner = self.person.user_id.to_string();
        let list =
            List { root_keys: &self.app.root_keys, of: &[b"browsers", owner.as_bytes()], limit: SESSIONS_PER_PAGE };
        let before = list.behind(self.cursor)?;
        let listed = self.browsers_listed(before.map(BrowserSessionId::from), list.rows());
        let browsers = browser_sessions::list_by_user(db, self.person.user_id, &listed).await?;
        let page = list.page(browsers, |browser| browser.id.uuid());
        Ok(Sessions { browsers: page.data, next_cursor: page.next_cursor, ..Sessions::default() })
    }

    async fn client(&self, db: &Connection, id: &str) -> Result<Sessions, AccountError> {
        let owner = self.person.user_id.to_string();
        let of = [b"sessions of", owner.as_bytes(), id.as_bytes()];
        let list = List { root_keys: &self.app.root_keys, of: &of, limit: SESSIONS_PER_PAGE };
        let before = list.behind(self.cursor)?.map(GrantId::from);
        let listed = self.sessions(before, list.rows());
        let sessions = store::grants::list_by_clients(db, self.person.user_id, &[id], &listed).await?;
        let page = list.page(sessions, |session| session.id.uuid());
        let client = store::clients::find(db, id).await?.filter(|_| !page.data.is_empty());
        let clients = client.map(|client| ClientSessions {
            name_verified: consent::is_name_verified(client.kind),
            client: SessionClient { id: client.id, name: client.name },
            total: i64::try_from(page.data.len()).unwrap_or(i64::MAX),
            sessions: page.data,
        });
        Ok(Sessions { clients: clients.into_iter().collect(), next_cursor: page.next_cursor, ..Sessions::default() })
    }
}

/// A session that the user may want to revoke.
pub struct FoundSession {
    pub kind: SessionKind,
    /// The live tokens and invitations that it created.
    pub made: Vec<LineageItem>,
}

/// What a session belongs to.
pub enum SessionKind {
    Browser(ListedBrowser),
    Client { name: String },
}

/// Finds a session of a client, or a browser, of the user. One that was revoked is not found.
pub async fn find(app: &App, browser: &Browser, id: &str) -> Result<FoundSession, AccountError> {
    let db = app.database.connect().await?;
    find_of_user(app, &db, signed_in(browser)?.user_id, id).await?.ok_or(AccountError::NotFound)
}

/// Finds a session of a client, or a browser, of a user. One that was revoked is not found.
pub(crate) async fn find_of_user(
    app: &App,
    db: &Connection,
    user_id: UserId,
    id: &str,
) -> Result<Option<FoundSession>, database::Error> {
    let now = app.clock.now();
    let kind = if let Ok(other) = id.parse::<BrowserSessionId>() {
        browser_sessions::find_listed(db, other, user_id, now).await?.map(SessionKind::Browser)
    } else if let Ok(id) = id.parse::<GrantId>() {
        let grant = store::grants::find(db, id).await?;
        let grant = grant.filter(|grant| grant.user_id == user_id && grant.facts.ended.is_none());
        grant.map(|grant| SessionKind::Client {
            name: app.config.brand.client_name(&grant.client.id, grant.client.name),
        })
    } else {
        None
    };
    let Some(kind) = kind else { return Ok(None) };
    let made = store::lineage::list_made(db, user_id, &[id.to_owned()], now).await?;
    Ok(Some(FoundSession { kind, made }))
}

/// Revokes a session of a client, or signs a browser out. With the last session of a third-party client the consent for it is
/// withdrawn. What the session made is treated as the user says.
pub async fn revoke(
    app: &App,
    meta: &RequestMeta,
    browser: &Browser,
    id: &str,
    made: MadeTreatment,
) -> Result<(), AccountError> {
    let actor = actor(browser, meta)?;
    let user_id = actor.user_id;
    let now = app.clock.now();
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    let lineage = LineageRevocation { cause: Cause::Request(meta), user_id, event: Event::RevokedByUser(made) };
    store::users::lock(transaction.db(), user_id).await?;
    if let Ok(other) = id.parse::<BrowserSessionId>() {
        if !browser_sessions::delete_one(transaction.db(), other, user_id).await? {
            return Err(AccountError::NotFound);
        }
        let event = actor.user_event(EventName::SessionEnded, now, json!({ "by": browser.id }))?;
        event.subject(id).insert(transaction.db()).await?;
        lineage.revoke(&mut transaction, vec![id.to_owned()]).await?;
        return Ok(transaction.commit().await?);
    }
    let id: GrantId = id.parse().map_err(|_| AccountError::NotFound)?;
    let grant = store::grants::find(transaction.db(), id).await?;
    let grant = grant.filter(|grant| grant.user_id == user_id).ok_or(AccountError::NotFound)?;
    if transaction.revoke_grant(id, Reason::RevokedByUser).await? {
        let event = actor.user_event(EventName::SessionEnded, now, json!({ "by": browser.id }))?;
        let event = event.client(&grant.client.id).in_workspace(grant.workspace_id).subject(id);
        event.insert(transaction.db()).await?;
        lineage.revoke(&mut transaction, vec![id.to_string()]).await?;
        consents::withdraw_if_last(transaction.db(), meta, user_id, &grant.client, now).await?;
    }
    Ok(transaction.commit().await?)
}

/// Revokes every session of the user and signs out every browser, including this one. What they made is treated as
/// recommended: CLI tokens that were used recently stay valid. Of the devices only this browser stays known.
pub async fn revoke_all(app: &App, meta: &RequestMeta, browser: &Browser) -> Result<(), AccountError> {
    let now = app.clock.now();
    let actor = actor(browser, meta)?;
    step_up::require_recent_sign_in(app, &actor).await?;
    let user_id = actor.user_id;
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    // A concurrent sign-in commits before this lock is taken, or starts after this transaction.
    store::users::lock(transaction.db(), user_id).await?;
    let sessions = transaction.revoke_grants_of_user(user_id, GrantSelection::All, Reason::RevokedByUser).await?;
    let lineage = LineageRevocation {
        cause: Cause::Request(meta),
        user_id,
        event: Event::RevokedByUser(MadeTreatment::Recommended),
    };
    let browsers = browser_sessions::delete_by_user(transaction.db(), user_id, None).await?;
    let makers = sessions.iter().map(ToString::to_string).chain(browsers.iter().map(ToString::to_string));
    lineage.revoke(&mut transaction, makers.collect()).await?;
    devices::revoke_others(transaction.db(), user_id, meta).await?;
    let consents =
        store::consents::delete_without_sessions(transaction.db(), user_id, now, rotation::idle_since(now)).await?;
    let details =
        json!({ "by": browser.id, "sessions": sessions.len(), "browsers": browsers.len(), "consents": consents });
    actor.user_event(EventName::SessionAllEnded, now, details)?.insert(transaction.db()).await?;
    Ok(transaction.commit().await?)
}
