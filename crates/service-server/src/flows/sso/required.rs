//! Domains in which single sign-on is required: codes sign no user in, except break-glass owners.
//!
//! A break-glass owner is named in the connection and still owns its workspace. Such an owner can sign in by code a few
//! times a month, and every owner gets a mail about it. When single sign-on becomes required, the connection's owner decides
//! whether existing sessions and tokens are revoked; a background task does it, user by user.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    errors::Reason,
    ids::{ConnectionId, UserId},
    workspaces::Role,
};
use service_rules::{
    Timestamp,
    email::Address,
    lifetimes,
    limits::Window,
    rotation,
    signing::later,
    sso::{BREAK_GLASS_SECONDS, MAX_BREAK_GLASS_SIGN_INS},
};
use uuid::Uuid;

use crate::{
    app::App,
    database::{Connection, Error},
    flows::{
        RequestMeta, node_event,
        rate_limit::Limit,
        revocation::RevocationTransaction,
        sign_in::{
            email_key::{domain_key, email_key},
            request_otp::SSO_LINK,
        },
        sso::start::route_of,
    },
    mail::Email,
    store::{self, connections::RevokingConnection, routed_domains::Route},
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
    let route = route_of(app, db, address).await?;
    match route.filter(|route| route.required && client_id != SSO_LINK) {
        None => Ok(CodeRule::Accepted),
        Some(route) if is_break_glass(db, &route, user_id).await? => Ok(CodeRule::BreakGlass(route)),
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

/// Whether a user is a break-glass owner of a route's connection. The same statements run for every user, and for none.
async fn is_break_glass(db: &Connection, route: &Route, user_id: Option<UserId>) -> Result<bool, Error> {
    let user_id = user_id.unwrap_or_else(|| Uuid::nil().into());
    let connection = store::connections::find(db, route.connection_id).await?;
    let role = store::memberships::find_role(db, user_id, route.workspace_id).await?;
    let is_named = connection.is_some_and(|connection| connection.break_glass.contains(&user_id));
    Ok(is_named && role == Some(Role::Owner))
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
    let route = route_of(app, db, address).await?.filter(|route| route.required && client_id != SSO_LINK);
    let Some(route) = route else { return Ok(None) };
    let email = email_key(app, db, address).await?;
    let user_id = store::emails::find_user(db, email).await?.map(|account| account.user_id);
    Ok((!is_break_glass(db, &route, user_id).await?).then_some(route))
}

/// Counts a sign-in of a break-glass owner; `false`: the owner has used up those of this month.
pub(crate) async fn count_break_glass(
    app: &App,
    db: &Connection,
    user_id: UserId,
    now: Timestamp,
) -> Result<bool, Error> {
    let whom = user_id.to_string();
    let limit = Limit { policy: "break-glass", whom: whom.as_bytes() };
    let windows = [Window { count: MAX_BREAK_GLASS_SIGN_INS, seconds: BREAK_GLASS_SECONDS }];
    Ok(limit.take_in_windows(app, db, &windows, now).await?.is_none())
}

/// Records the sign-in of a break-glass owner, and mails every owner of the workspace.
pub(crate) async fn record_break_glass(
    app: &App,
    meta: &RequestMeta,
    db: &Connection,
    route: &Route,
    user_id: UserId,
) -> anyhow::Result<()> {
    let now = app.clock.now();
    let event = meta.event(EventName::BreakGlassUsed, now, json!({ "connectionId": route.connection_id }))?;
    event.user(user_id).in_workspace(route.workspace_id).subject(route.connection_id).insert(db).await?;
    let user = store::users::find(db, user_id).await?;
    let user = user.ok_or_else(|| anyhow::anyhow!("a break-glass owner does not exist"))?;
    for owner in store::members::list_owners(db, route.workspace_id).await? {
        let mail = Email::BreakGlassUsed {
            to: owner.email,
            user: user.email.clone(),
            company: route.name.clone(),
            at: now,
            from: meta.address.to_string(),
        };
        mail.enqueue(&app.root_keys, db, now, later(now, lifetimes::WARNING)).await?;
    }
    Ok(())
}

/// Revokes the sessions and tokens of users in domains where single sign-on became required. Returns how many users it
/// concerned.
pub async fn revoke_existing(app: &App) -> anyhow::Result<u64> {
    let db = app.background_database.connect().await?;
    let revoking = store::connections::list_revoking(&db).await?;
    drop(db);
    let mut concerned = 0;
    for connection in &revoking {
        concerned += revoke_of_connection(app, connection).await?;
    }
    Ok(concerned)
}

async fn revoke_of_connection(app: &App, connection: &RevokingConnection) -> anyhow::Result<u64> {
    let db = app.background_database.connect().await?;
    let domains = store::workspace_domains::verified_domains_of(&db, connection.id, connection.workspace_id).await?;
    let (mut after, mut concerned) = (UserId::from(Uuid::nil()), 0);
    loop {
        let users = store::emails::list_users_by_domains(&db, &domains, after, USERS_PER_READ).await?;
        let Some(last) = users.last() else { break };
        after = *last;
        for user_id in users {
            concerned += u64::from(revoke_of_user(app, connection, user_id).await?);
        }
    }
    store::connections::mark_revoked(&db, connection).await?;
    Ok(concerned)
}

/// Revokes what a user has that does not come from a sign-in through the connection; of a break-glass owner, what they had
/// before the connection was required. `false`: there was nothing.
async fn revoke_of_user(app: &App, connection: &RevokingConnection, user_id: UserId) -> anyhow::Result<bool> {
    let RevokingConnection { id, workspace_id, before, .. } = *connection;
    let now = app.clock.now();
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    // A sign-in at the same time commits before this lock is taken, or starts after this transaction.
    store::users::lock(transaction.db(), user_id).await?;
    // Since then, only break-glass owners have signed in by code. Whatever else another user has comes from before, although
    // the clock of the node that made it, or the moment at which it was read, can say otherwise.
    let is_break_glass = connection.break_glass.contains(&user_id)
        && store::memberships::find_role(transaction.db(), user_id, workspace_id).await? == Some(Role::Owner);
    let before = is_break_glass.then_some(before);
    let Existing { grants, cli_tokens } = Existing::find(transaction.db(), user_id, id, before, now).await?;
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
    event.in_workspace(workspace_id).insert(transaction.db()).await?;
    transaction.commit().await?;
    Ok(true)
}

/// What a user has that does not come from a sign-in through a connection.
struct Existing {
    grants: Vec<Uuid>,
    cli_tokens: Vec<Uuid>,
}

impl Existing {
    /// What a session through the connection created, such as a CLI token, comes from that sign-in.
    async fn find(
        db: &Connection,
        user_id: UserId,
        connection_id: ConnectionId,
        before: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let makers = store::connection_grants::list_makers(db, user_id, connection_id).await?;
        let found = store::connection_grants::list_existing(db, user_id, connection_id, before, now).await?;
        let others = found.into_iter().filter(|found| !found.made_by.as_ref().is_some_and(|by| makers.contains(by)));
        let (cli_tokens, grants): (Vec<_>, Vec<_>) = others.partition(|found| found.is_cli_token);
        let ids = |found: Vec<store::connection_grants::ExistingCredential>| found.into_iter().map(|one| one.id);
        Ok(Self { grants: ids(grants).collect(), cli_tokens: ids(cli_tokens).collect() })
    }
}
