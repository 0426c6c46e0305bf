//! Domains in which single sign-on is required: codes sign no user in, except break-glass owners.
//!
//! When single sign-on becomes required, the connection's owner decides
//! whether existing sessions and tokens are revoked; a background task does it, user by user. What counts is when and how the
//! user of a session signed in, and not when it was opened: a browser from before could open one every second.

use serde_json::json;
use service_api::{audit_events::EventName, errors::Reason, ids::UserId};
use service_rules::{
    Timestamp,
    email::Address,
    rotation,
    sso::{LINK_CLIENT, tokens_end},
};
use uuid::Uuid;

use crate::{
    app::App,
    database::{Connection, Error},
    flows::{
        node_event,
        revocation::RevocationTransaction,
        sign_in::email_key::{domain_key, email_key},
        sso::{break_glass, routes},
    },
    store::{
        self,
        browser_sessions::{BrowserSignIn, SignedInUser},
        connections::{RevokingConnection, StoredConnection},
        routed_domains::{Requirement, Route},
    },
};

/// Users whose sessions are revoked before the list is read on.
const USERS_PER_READ: i64 = 200;

/// Whether codes of an address sign its user in.
pub(crate) enum CodeRule {
    Accepted,
    /// Single sign-on is required, and the user is a break-glass owner.
    BreakGlass(Route),
    /// Single sign-on is required.
    Refused,
}

/// Whether codes that are sent for a client sign the user of an address in.
pub(crate) async fn judge_codes(
    app: &App,
    db: &Connection,
    address: &Address,
    client_id: &str,
    user_id: Option<UserId>,
) -> Result<CodeRule, Error> {
    let route = routes::find_in(app, db, address).await?;
    match route.filter(|route| route.required && client_id != LINK_CLIENT) {
        None => Ok(CodeRule::Accepted),
        Some(route) if break_glass::may_use_codes(db, &route, user_id).await? => Ok(CodeRule::BreakGlass(route)),
        Some(_) => Ok(CodeRule::Refused),
    }
}

/// Where the users of an address's domain sign in now. The route is locked: single sign-on does not become required before
/// this transaction ends. The user must be locked first, as in every transaction that locks both.
pub(crate) async fn lock_route(app: &App, db: &Connection, address: &Address) -> Result<Option<Route>, Error> {
    let key = domain_key(app, db, address.domain()).await?;
    store::routed_domains::lock_route(db, key).await
}

/// Brings back the credentials of a user who signs in by code, if they wait for a sign-in through a connection that the
/// user's domain no longer leads to. `route` is where the domain leads to now.
pub(crate) async fn bring_back(db: &Connection, user_id: UserId, route: Option<&Route>) -> Result<(), Error> {
    let current = route.map(|route| route.connection_id);
    if let Some(former) = store::user_connections::delete_of_others(db, user_id, current).await? {
        store::connection_grants::remove_deadlines(db, user_id, former).await?;
    }
    Ok(())
}

/// Where the user of an address has to sign in, if a code would not sign them in. `None`: a code is sent.
///
/// This decides about the mail only. Whether a code signs its user in is judged when it is entered.
pub(crate) async fn instead_of_code(
    app: &App,
    db: &Connection,
    address: &Address,
    client_id: &str,
) -> Result<Option<Route>, Error> {
    let route = routes::find_in(app, db, address).await?.filter(|route| route.required && client_id != LINK_CLIENT);
    let Some(route) = route else { return Ok(None) };
    let email = email_key(app, db, address).await?;
    let user_id = store::emails::find_user(db, email).await?.map(|account| account.user_id);
    Ok((!break_glass::may_use_codes(db, &route, user_id).await?).then_some(route))
}

/// Whether a user has to sign in with a connection.
pub(crate) async fn applies_to(app: &App, db: &Connection, user_id: UserId) -> Result<bool, Error> {
    let Some(address) = store::users::find_address(db, user_id).await? else { return Ok(false) };
    let key = domain_key(app, db, address.domain()).await?;
    Ok(store::routed_domains::find_requirement(db, key).await?.is_some())
}

/// Whether a sign-in with a browser no longer opens sessions: single sign-on became required after it in the domain of the
/// user, and it did not go through the connection.
pub(crate) async fn is_outdated(app: &App, db: &Connection, person: &SignedInUser) -> Result<bool, Error> {
    let Ok(address) = Address::parse(&person.email) else { return Ok(false) };
    let key = domain_key(app, db, address.domain()).await?;
    Ok(is_from_before(store::routed_domains::find_requirement(db, key).await?, &person.sign_in))
}

/// Returns the connection that a user has to sign in with. The route is locked: it does not become required before this
/// transaction ends. The user must be locked first, and browser sessions afterwards.
pub(crate) async fn lock_requirement(
    app: &App,
    db: &Connection,
    user_id: UserId,
) -> Result<Option<Requirement>, Error> {
    let Some(address) = store::users::find_address(db, user_id).await? else { return Ok(None) };
    let key = domain_key(app, db, address.domain()).await?;
    store::routed_domains::lock_requirement(db, key).await
}

/// Whether a sign-in is from before a connection became required, and did not go through it.
pub(crate) fn is_from_before(required: Option<Requirement>, sign_in: &BrowserSignIn) -> bool {
    required.is_some_and(|required| {
        sign_in.connection_id != Some(required.connection_id) && sign_in.signed_in_at < required.since
    })
}

/// Revokes the sessions and tokens of users in domains where single sign-on became required, if the owner chose that, and
/// limits the tokens of users who never signed in through the connection. Returns how many users were signed out. A user or
/// a connection that fails does not stop the others, and is tried again.
pub async fn revoke_existing(app: &App) -> anyhow::Result<u64> {
    let db = app.background_database.connect().await?;
    let revoking = store::connections::list_revoking(&db).await?;
    drop(db);
    let (mut concerned, mut failure) = (0, None);
    for connection in &revoking {
        match revoke_of_connection(app, connection).await {
            Ok(users) => concerned += users,
            Err(error) => {
                failure.get_or_insert(error);
            }
        }
    }
    failure.map_or(Ok(concerned), Err)
}

async fn revoke_of_connection(app: &App, connection: &RevokingConnection) -> anyhow::Result<u64> {
    let db = app.background_database.connect().await?;
    let domains = store::workspace_domains::verified_domains_of(&db, connection.id, connection.workspace_id).await?;
    let (mut after, mut concerned, mut failure) = (UserId::from(Uuid::nil()), 0, None);
    loop {
        let users = store::emails::list_users_by_domains(&db, &domains, after, USERS_PER_READ).await?;
        let Some(last) = users.last() else { break };
        after = *last;
        for user_id in users {
            match apply_to_user(app, connection, user_id).await {
                Ok(is_concerned) => concerned += u64::from(is_concerned),
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
        }
    }
    if let Some(error) = failure {
        return Err(error);
    }
    store::connections::mark_revoked(&db, connection).await?;
    Ok(concerned)
}

/// Applies the owner's decision to a user; `false`: there was nothing to revoke.
async fn apply_to_user(app: &App, connection: &RevokingConnection, user_id: UserId) -> anyhow::Result<bool> {
    let mut transaction = RevocationTransaction::begin(app, app.clock.now()).await?;
    // A sign-in at the same time commits before this lock is taken, or starts after this transaction.
    store::users::lock(transaction.db(), user_id).await?;
    if store::users::find(transaction.db(), user_id).await?.is_none() {
        // The account was erased meanwhile.
        return Ok(false);
    }
    let held = store::connections::hold(transaction.db(), connection.id).await?;
    // An owner may have changed it meanwhile.
    let Some(held) = held.filter(|held| held.required_at.is_some()) else { return Ok(false) };
    if let Some(from) = held.limit_from {
        limit_user(transaction.db(), &held, user_id, from).await?;
    }
    let is_concerned = match held.revoke_before {
        Some(before) => revoke_of_user(&mut transaction, &held, user_id, before).await?,
        None => false,
    };
    transaction.commit().await?;
    Ok(is_concerned)
}

/// Lets the tokens of a user who never signed in through the connection wait for that after its days. Break-glass owners can
/// be without the provider for longer.
async fn limit_user(
    db: &Connection,
    connection: &StoredConnection,
    user_id: UserId,
    from: Timestamp,
) -> Result<(), Error> {
    if break_glass::is_owner(db, connection, user_id).await? {
        return store::user_connections::delete_limit(db, user_id, connection.id).await;
    }
    let tokens_until = tokens_end(from, connection.token_days);
    store::user_connections::limit(db, user_id, connection.id, from, tokens_until).await
}

/// Revokes what a user has from sign-ins before a time and not through the connection. `false`: there was nothing.
async fn revoke_of_user(
    transaction: &mut RevocationTransaction<'_>,
    connection: &StoredConnection,
    user_id: UserId,
    before: Timestamp,
) -> anyhow::Result<bool> {
    let (id, now) = (connection.id, transaction.now());
    // Since then, only break-glass owners have signed in by code. Whatever else another user has comes from before, although
    // the clock of the node that made it can say otherwise.
    let before = break_glass::is_owner(transaction.db(), connection, user_id).await?.then_some(before);
    let found = store::connection_grants::list_existing(transaction.db(), user_id, id, before, now).await?;
    let (cli_tokens, grants): (Vec<_>, Vec<_>) = found.into_iter().partition(|found| found.is_cli_token);
    let [grants, cli_tokens] = [grants, cli_tokens].map(|found| found.iter().map(|one| one.id).collect::<Vec<_>>());
    transaction.revoke_grants(user_id, &grants, Reason::SsoRequired).await?;
    transaction.revoke_cli_tokens(user_id, &cli_tokens, Reason::SsoRequired).await?;
    let browsers = store::browser_sessions::delete_without_connection(transaction.db(), user_id, id, before).await?;
    if grants.is_empty() && cli_tokens.is_empty() && browsers == 0 {
        return Ok(false);
    }
    store::consents::delete_without_sessions(transaction.db(), user_id, now, rotation::idle_since(now)).await?;
    let details = json!({
        "connectionId": id, "reason": Reason::SsoRequired, "sessions": grants.len(), "cliTokens": cli_tokens.len(),
        "browsers": browsers,
    });
    let event = node_event(EventName::SsoLoggedOut, now, details)?.user(user_id).subject(id);
    event.in_workspace(connection.workspace_id).insert(transaction.db()).await?;
    Ok(true)
}
