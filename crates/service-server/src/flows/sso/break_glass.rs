//! Break-glass owners, who sign in by code where single sign-on is required.
//!
//! A break-glass owner is named in the connection and still owns its workspace. Such an owner can sign in by code a few
//! times a month, and every owner gets a mail about it. A required connection always keeps one who can.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    ids::{UserId, WorkspaceId},
    workspaces::Role,
};
use service_rules::{
    Timestamp, lifetimes,
    limits::Window,
    signing::later,
    sso::{BREAK_GLASS_SECONDS, MAX_BREAK_GLASS_SIGN_INS},
};
use uuid::Uuid;

use crate::{
    app::App,
    database::{Connection, Error},
    flows::{RequestMeta, rate_limit::Limit},
    mail::Email,
    store::{self, connections::StoredConnection, routed_domains::Route},
};

/// Whether a user is a break-glass owner of a route's connection. The same statements run for every user, and for none.
pub(super) async fn may_use_codes(db: &Connection, route: &Route, user_id: Option<UserId>) -> Result<bool, Error> {
    let user_id = user_id.unwrap_or_else(|| Uuid::nil().into());
    let connection = store::connections::find(db, route.connection_id).await?;
    let role = store::memberships::find_role(db, user_id, route.workspace_id).await?;
    let is_named = connection.is_some_and(|connection| connection.break_glass.contains(&user_id));
    Ok(is_named && role == Some(Role::Owner))
}

/// Whether a user is a break-glass owner of a connection.
pub(super) async fn is_owner(db: &Connection, connection: &StoredConnection, user_id: UserId) -> Result<bool, Error> {
    let role = store::memberships::find_role(db, user_id, connection.workspace_id).await?;
    Ok(connection.break_glass.contains(&user_id) && role == Some(Role::Owner))
}

/// Whether a connection has a break-glass owner, apart from one who leaves.
pub(super) async fn has_owner(
    db: &Connection,
    connection: &StoredConnection,
    leaving: Option<UserId>,
) -> Result<bool, Error> {
    let owners = store::members::list_owners(db, connection.workspace_id).await?;
    let named = |user_id: UserId| connection.break_glass.contains(&user_id) && Some(user_id) != leaving;
    Ok(owners.iter().any(|owner| named(owner.user_id)))
}

/// Whether every required connection of a workspace keeps a break-glass owner when one owner leaves.
pub(in crate::flows) async fn remains(db: &Connection, id: WorkspaceId, leaving: UserId) -> Result<bool, Error> {
    for connection in store::connections::list(db, id).await? {
        let is_named = connection.break_glass.contains(&leaving);
        if connection.required_at.is_some() && is_named && !has_owner(db, &connection, Some(leaving)).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Counts a sign-in of a break-glass owner; `false`: the owner has used up those of this month.
pub(in crate::flows) async fn count(
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
pub(in crate::flows) async fn record(
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
